"""Runbooks of calls, the service, webhooks, clocks, the archive and pipelines."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from support.hooks import SECRET
from support.runbook_runs import AWAY, COUNTER, HOME, REGIONS, RunbookRun, Scenario, with_changes
from support.strangers import answering

from ledger.http.webhooks.events import of_test
from ledger.http.webhooks.progress_items import HookPosition, ProgressItems
from ledger.settings import Settings
from ledger.store.connections import open_store

CLOCK_SECONDS = 120.0
LONG = {"settle": 240.0, "retry_horizon": 200.0}
"""For calls that are repeated by hand, however slow the machine is."""
RECORDS, DEAD, KIND = "records.jsonl", "records.dead", "kind/a"
PIPELINE = {
    "fields": {"id": "id", "version": "version", "value": "value"},
    "categories": ["kind/{kind}"],
    "reduce_every": 0,
}


def a_region_throttles(run: RunbookRun) -> None:
    """Nothing is answered in a region but that it is too much; a change is to be repeated."""
    run.record(HOME, COUNTER, 3)
    run.desk.world.faults("throttle", regions=[AWAY])  # type: ignore[arg-type]
    run.values["TIME"] = datetime.now(UTC).isoformat()
    run.expected[COUNTER] += 1


def it_answers(run: RunbookRun) -> None:
    """End the fault."""
    run.desk.world.faults(None)
    run.desk.wait_replicated()


def clocks_differ(run: RunbookRun) -> None:
    """By the answers of all regions this machine's clock is off."""
    with_changes(run)
    for region in REGIONS:
        run.desk.world.set_clock(region, CLOCK_SECONDS)


def set_right(run: RunbookRun) -> None:
    """Set the clock."""
    for region in REGIONS:
        run.desk.world.set_clock(region, 0.0)


def with_archive(folder: Path) -> Mapping[str, Any]:
    """Return settings with two places."""
    return {"archive": [f"file://{folder}/one", f"file://{folder}/two"]}


def make_places(run: RunbookRun) -> None:
    """Make the folders of the places."""
    for place in ("one", "two"):
        (run.desk.folder / place).mkdir()


def a_place_is_away(run: RunbookRun) -> None:
    """What was merged is in both places; then one is away, and a file stands there."""
    make_places(run)
    with_changes(run)
    run.settle()
    run.values["PLACE"] = run.settings.terms.archive[1]
    place = run.desk.folder / "two"
    place.rename(run.desk.folder / "away")
    place.touch()


def it_is_back(run: RunbookRun) -> None:
    """Bring the place back as it was."""
    place = run.desk.folder / "two"
    place.unlink()
    (run.desk.folder / "away").rename(place)


def a_dead_letter(run: RunbookRun) -> None:
    """Of five records one has a value that is no number."""
    values: list[Any] = [1, 2, "three", 4, 5]
    lines = [
        json.dumps({"id": f"r{number}", "version": 1, "value": value, "kind": "a"})
        for number, value in enumerate(values)
    ]
    (run.desk.folder / RECORDS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    ran = run.command(f"ledger pipeline run {RECORDS} --dead {DEAD}")
    assert ran.status == 0, ran
    run.expected[KIND] = Decimal(15)


def mend(run: RunbookRun) -> None:
    """Put the value right in the file of dead letters."""
    file = run.desk.folder / DEAD
    text = file.read_text(encoding="utf-8")
    assert text.count("three") >= 1
    letters = [json.loads(line) for line in text.splitlines()]
    for letter in letters:
        letter["record"] = letter["record"].replace('"three"', "3")
    file.write_text("".join(json.dumps(each) + "\n" for each in letters), encoding="utf-8")


def only_totals(run: RunbookRun) -> None:
    """Check totals; what pipelines add is never merged, and calls have not settled."""
    run.desk.wait_replicated()
    for region in REGIONS:
        assert {total.counter: total.value for total in run.totals(region)} == run.expected


def a_token_expired(run: RunbookRun) -> None:
    """The table is well; a caller shows a token that has ended."""
    run.record(HOME, COUNTER, 3)
    words = "ledger token create NAME --scope read --scope write --expires 1ms --tokens TOKENS"
    assert run.command(words).status == 0


def a_receiver_is_gone(run: RunbookRun) -> None:
    """It answered 500 until an event was given up, then 410."""
    _receiver_answers(run, 410)
    run.record(HOME, COUNTER, 3)
    run.desk.portal.call(_left_over, run.settings, run.values["NAME"])


def it_takes_events(run: RunbookRun) -> None:
    """Let what is at the webhook's URL answer 200."""
    _receiver_answers(run, 200)


def _receiver_answers(run: RunbookRun, status: int) -> None:
    stack = ExitStack()
    run.undone.append(stack.close)
    url = stack.enter_context(answering((status, "text/plain", b"")))
    hook = {"url": url, "secret": SECRET, "private": True}
    text = yaml.safe_dump({"webhooks": {run.values["NAME"]: hook}})
    (run.desk.folder / run.values["FILE"]).write_text(text, encoding="utf-8")


async def _left_over(settings: Settings, name: str) -> None:
    now = datetime.now(UTC)
    async with open_store(settings, HOME) as store:
        kept = ProgressItems(store, name)
        await kept.put_dead(of_test(name, now.isoformat()), "500 (tried 10 times)", now)
        disabled = f"the receiver answered 410 at {now.isoformat()}"
        await kept.move(HookPosition(), HookPosition("cursor", now, disabled), stamp="s")


def nothing(_run: RunbookRun) -> None:
    """Do nothing: what the command shows or does is not of this table."""


SCENARIOS = (
    Scenario(
        runbook="calls-fail",
        values={"COUNTER": COUNTER, "REGION": AWAY, "KEY": "order-7"},
        prepare=a_region_throttles,
        events={"the region answers again": it_answers},
        check=only_totals,
        given=lambda _folder: LONG,
    ),
    Scenario(
        runbook="service-failing",
        values={"COUNTER": COUNTER, "REGION": HOME, "NAME": "shop", "TOKENS": "tokens.json"},
        prepare=a_token_expired,
        check=only_totals,
    ),
    Scenario(
        runbook="webhooks-failing",
        values={"FILE": "webhooks.yaml", "NAME": "erp"},
        prepare=a_receiver_is_gone,
        events={"the receiver takes events": it_takes_events},
        check=only_totals,
    ),
    Scenario(
        runbook="clock-off",
        prepare=clocks_differ,
        foreign={
            "timedatectl status": nothing,
            "chronyc tracking": nothing,
            "systemctl enable --now chrony": nothing,
            "chronyc makestep": set_right,
        },
    ),
    Scenario(
        runbook="archive-waits",
        values={"COUNTER": COUNTER},
        prepare=a_place_is_away,
        events={"the place answers again": it_is_back},
        given=with_archive,
    ),
    Scenario(
        runbook="pipeline-stuck",
        values={"RECORDS": RECORDS, "DEAD": DEAD},
        prepare=a_dead_letter,
        events={"the records in the letters are mended": mend},
        check=only_totals,
        given=lambda _folder: {"pipeline": PIPELINE},
    ),
)
