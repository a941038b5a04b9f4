"""The pipeline's acceptance trial: real processes under disturbances, totals known apart.

A short one belongs to the slow tier. The run of an hour::

    LEDGER_TRIAL_SECONDS=3600 pytest -m long -n 0 tests/integration/test_pipeline_trial.py

LEDGER_TRIAL_SEED draws another one, LEDGER_TRIAL_ENGINE and LEDGER_TRIAL_REGIONS choose the table,
and LEDGER_TRIAL_REPORT names a file for its report as JSON.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.engines import DYNOXIDE, REGIONS
from support.trial.table import kept_table
from support.trial.trial import Plan, Report, Trial

SECONDS = float(os.environ.get("LEDGER_TRIAL_SECONDS", "600"))
SEED = int(os.environ.get("LEDGER_TRIAL_SEED", "7"))
ENGINE = os.environ.get("LEDGER_TRIAL_ENGINE", "dynoxide")
REGIONS_COUNT = int(os.environ.get("LEDGER_TRIAL_REGIONS", "3"))
REPORT = os.environ.get("LEDGER_TRIAL_REPORT", "")
OVERTIME_SECONDS = 1_800
"""For the last round, and the start."""


def hold(plan: Plan, folder: Path, *, seconds: float) -> Report:
    """Hold a trial, and write its report."""
    with kept_table(plan.regions, plan.engine, folder / "data", plan.seed) as table:
        report = Trial(plan, table, folder).run(seconds=seconds)
    path = Path(REPORT) if REPORT else folder / "report.json"
    path.write_text(report.to_json(), encoding="utf-8")
    return report


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("engine", "regions"),
    [
        pytest.param("memory", REGIONS[:2], marks=pytest.mark.long),
        pytest.param("dynoxide", REGIONS, marks=DYNOXIDE.marks),
    ],
)
def test_a_short_trial_ends_exact(engine: str, regions: Sequence[str], tmp_path: Path) -> None:
    """One round: every category of every region has its total, every malformed record a letter."""
    plan = Plan(seed=7, regions=regions, engine=engine, lanes=3, ticks=16, moves_home=False)
    report = hold(plan, tmp_path, seconds=0)
    assert report.wrong == []
    assert report.rounds == 1
    assert report.malformed > 0
    assert report.categories > 0


@pytest.mark.long
@pytest.mark.engines("dynoxide")
@pytest.mark.timeout(SECONDS + OVERTIME_SECONDS)
def test_a_trial_of_an_hour_ends_exact(tmp_path: Path) -> None:
    """Rounds until the time is over, with settings that change and a home that moves."""
    plan = Plan(seed=SEED, regions=REGIONS[:REGIONS_COUNT], engine=ENGINE)
    report = hold(plan, tmp_path, seconds=SECONDS)
    assert report.wrong == []
