"""States in a table of their own, and forgotten, by the commands that an operator uses."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from support.commands import Desk, open_desk
from support.ledgers import AWAY, HOME
from support.pipelines import BOTH_HOMES, FIELDS
from support.worlds import open_ledgers, totals
from typer.testing import CliRunner, Result

from ledger.commands.main import app
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.forget import Forget
from ledger.pipeline.core import age_horizon

pytestmark = pytest.mark.slow

RECORDS = 12
GROUP = {
    "fields": {**FIELDS, "time": "At"},
    "categories": ["aside/{Desk}"],
    "home": BOTH_HOMES,
    "reduce_every": 0,
    "name": "aside",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return a local global table of two regions."""
    with open_desk(tmp_path_factory.mktemp("desk"), regions=[HOME, AWAY]) as opened:
        yield opened


def ran(*words: str, config: Path) -> Result:
    """Run a command that ends well."""
    said = CliRunner().invoke(app, [*words, "--config", str(config)])
    assert said.exit_code == 0, said.output
    return said


def records(file: Path, version: int) -> None:
    """Write records, half of which are of a year ago."""
    now = datetime.now(UTC)
    told = [
        {
            "TradeID": f"{'ET'[number % 2]}{number}",
            "Version": version,
            "Value": 10 * version,
            "Desk": "D",
            "At": (now - timedelta(days=365 * (number % 4 // 2))).date().isoformat() + "T00:00:00Z",
        }
        for number in range(RECORDS)
    ]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in told), encoding="utf-8")


def test_states_are_moved_and_forgotten(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Totals stay as they are and audits exact; late corrections are dead letters."""

    async def at_once(self: Forget) -> None:
        del self

    monkeypatch.setattr(Forget, "_wait", at_once)
    first, later = tmp_path / "first.jsonl", tmp_path / "later.jsonl"
    records(first, 1)
    records(later, 2)
    group = {**GROUP, "keep_states": "30d"}
    plain = desk.write_settings(desk.settings(pipeline=group), "plain.yaml")
    ran("pipeline", "run", str(first), config=plain)
    group = {**group, "state_table": "states-aside"}
    config = desk.write_settings(desk.settings(pipeline=group), "aside.yaml")
    ran("table", "create", "--states", config=config)
    assert "states-aside" in ran("table", "status", "--states", config=config).stdout
    refused = CliRunner().invoke(app, ["pipeline", "audit", "--config", str(config)])
    assert "move-states" in str(refused.exception)
    said = ran("pipeline", "move-states", config=config).stdout
    assert said.startswith(f"states lie in table states-aside: {RECORDS} moved")
    old = RECORDS // 2
    assert ran("pipeline", "forget", config=config).stdout.startswith(f"{old} records from before")
    monkeypatch.setattr(age_horizon, "margin_of", lambda _settings: 0.0)
    late = ran("pipeline", "run", str(later), config=config).stdout
    assert f"{old} dead" in late
    with monkeypatch.context() as patched:
        patched.delattr(Audit, "_differences")
        CliRunner().invoke(app, ["pipeline", "audit", "--config", str(config)])
    named = "`ledger pipeline audit` is under way"
    assert named in ran("pipeline", "status", str(later), config=config).stdout
    audit = ran("pipeline", "audit", config=config).stdout
    assert named not in ran("pipeline", "status", str(later), config=config).stdout
    assert f"{RECORDS - old} records and {old} forgotten" in audit
    assert "all exact" in audit
    desk.wait_replicated()
    right = Decimal(10 * old + 20 * (RECORDS - old))
    assert desk.portal.call(_shown, desk) == {HOME: right, AWAY: right}


async def _shown(desk: Desk) -> dict[str, Decimal]:
    async with open_ledgers(desk.settings()) as ledgers:
        return await totals(ledgers, "aside/D")
