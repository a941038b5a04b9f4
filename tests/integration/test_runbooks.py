"""Every runbook of `deploy/runbooks`, run as it stands on a local global table with its fault."""

from pathlib import Path

import pytest
from support.runbook_runs import Scenario, run_scenario
from support.runbook_scenarios import SCENARIOS

FURTHER = ("taken back", "another region", "with an archive", "and back")
"""How the titles of a page's further scenarios end, for which `.ci/run` has no time."""


def cases() -> list[object]:
    """Return each scenario in its tier."""
    tiers = {False: pytest.mark.slow, True: pytest.mark.long}
    return [
        pytest.param(scenario, id=scenario.title, marks=tiers[scenario.title.endswith(FURTHER)])
        for scenario in SCENARIOS
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", cases())
def test_a_runbook_does_what_it_says(scenario: Scenario, tmp_path: Path) -> None:
    """Each command ends as the page says and prints what it quotes; totals are exact throughout."""
    run_scenario(scenario, tmp_path)
