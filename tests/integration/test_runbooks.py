"""Every runbook of `deploy/runbooks`, run as it stands on a local global table with its fault."""

from pathlib import Path

import pytest
from support.runbook_runs import Scenario, run_scenario
from support.runbook_scenarios import SCENARIOS

pytestmark = pytest.mark.slow


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_a_runbook_does_what_it_says(scenario: Scenario, tmp_path: Path) -> None:
    """Each command ends as the page says and prints what it quotes; totals are exact throughout."""
    run_scenario(scenario, tmp_path)
