"""`ledger pipeline run`, `replay` and `status` as a user runs them, killed at chosen requests."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM

import anyio
import pytest
import yaml
from prometheus_client import CollectorRegistry
from support.commands import Desk, command_line, open_desk
from support.engines import DYNOXIDE
from support.killing import Trap, running
from support.ledgers import AWAY, HOME
from support.pipelines import BOTH_HOMES, CATEGORIES, FIELDS, POISON, message, truth
from support.worlds import open_ledgers, totals
from typer.testing import CliRunner, Result

from ledger.commands.main import app
from ledger.core.errors import LedgerError
from ledger.local import Fault, LocalGlobalTable
from ledger.pipeline.file_runs import LaneRun, Spool, bring_in
from ledger.pipeline.progress import LaneProgress
from ledger.pipeline.sources.dead_letters import letter_of
from ledger.pipeline.sources.file_positions import place_of
from ledger.settings import Settings

pytestmark = pytest.mark.slow

TRADES, VERSIONS = 50, 3
"""More batches than the workers that are killed can commit together, 7 of 20 records."""
COLUMNS = 200
"""Room for the name of a lane in one line."""
PIPELINE = {
    "fields": FIELDS,
    "categories": CATEGORIES,
    "home": BOTH_HOMES,
    "batch_max": 20,
    "reduce_every": 0,
}
COMMIT, STATES = "TransactWriteItems", "BatchExecuteStatement"
KILLS: Mapping[str, Sequence[tuple[str, int, Fault | None]]] = {
    "few": [(STATES, 2, None), (COMMIT, 3, Fault.ERROR_500)],
    "many": [
        (STATES, 2, None),
        (COMMIT, 1, None),
        (COMMIT, 2, Fault.ERROR_500),
        (COMMIT, 2, None),
        (STATES, 1, None),
        (COMMIT, 3, Fault.ERROR_500),
    ],
}
"""Before which request of the process it is killed, and whether that is still carried out."""
SLOW = pytest.mark.slow
Shown = Mapping[str, Mapping[str, Decimal]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Run a local global table for all tests here, each with categories of its own."""
    folder = tmp_path_factory.mktemp("desk")
    with open_desk(folder, regions=[HOME, AWAY], lag=0.01, jitter=0.05) as opened:
        yield opened


def lines(raws: list[bytes]) -> bytes:
    """Return records as a file has them."""
    return b"".join(raw + b"\n" for raw in raws)


def traffic(risk: str) -> list[bytes]:
    """Return versions of records in disorder, some duplicated, and a malformed one."""
    draw = Random(11)  # noqa: S311 (repeatable)
    raws = [
        message(f"{'ET'[record % 2]}{record}{risk}", version, draw.randrange(1000), risk, risk)
        for record in range(TRADES)
        for version in range(1, VERSIONS + 1)
    ]
    raws += [*raws[::9], POISON]
    draw.shuffle(raws)
    return raws


async def shown(settings: Settings, right: Mapping[str, Decimal]) -> Shown:
    """Return what all regions show of these counters."""
    async with open_ledgers(settings) as ledgers:
        return {name: dict(await totals(ledgers, name)) for name in right}


def everywhere(right: Mapping[str, Decimal]) -> Shown:
    """Return what all regions have to show."""
    return {name: {HOME: value, AWAY: value} for name, value in right.items()}


def pipeline(*words: str, config: Path) -> Result:
    """Run `ledger pipeline` in this process."""
    given = ["pipeline", *words, "--config", str(config)]
    return CliRunner().invoke(app, given, env={"COLUMNS": str(COLUMNS)})


@pytest.mark.parametrize("kills", ["few", pytest.param("many", marks=SLOW)])
@pytest.mark.parametrize("engine", [DYNOXIDE, pytest.param("memory", marks=SLOW)])
async def test_killed_again_and_again_each_record_counts_once(
    tmp_path: Path, engine: str, kills: str
) -> None:
    """Kill -9 amid states, at commits that are applied or not: the totals end exact.

    What is through is not read again, and the record that cannot be taken is kept.
    """
    raws, trap = traffic("Vega"), Trap()
    (tmp_path / "records.jsonl").write_bytes(lines(raws))
    words = command_line("ledger", "pipeline", "run", "records.jsonl")
    async with LocalGlobalTable.start(
        regions=[HOME, AWAY], fault=trap, lag=0.01, jitter=0.05, engine=engine
    ) as world:
        settings = world.settings(pipeline=PIPELINE)
        content = yaml.safe_dump(settings.model_dump(mode="json"))
        (tmp_path / "regions.yaml").write_text(content, encoding="utf-8")
        for operation, at, fault in KILLS[kills]:
            trap.set(operation, at=at, fault=fault)
            async with running(words, tmp_path) as process:
                trap.process = process.process.pid
                assert await process.ends() == -SIGKILL, process.said()
        trap.set(at=0)
        async with running(words, tmp_path) as process:
            assert await process.ends() == 0, process.said()
            read = int(process.said().split(": ")[1].split()[0])
        assert 0 < read < len(raws)
        await world.wait_replicated()
        right = truth(raws)
        assert await shown(settings, right) == everywhere(right)
    kept = [letter_of(line) for line in (tmp_path / "records.jsonl.dead").read_text().splitlines()]
    assert {letter.raw for letter in kept} == {POISON}
    assert len({letter.position for letter in kept}) == 1


def test_a_reset_takes_one_pipeline_back_and_no_other(desk: Desk, tmp_path: Path) -> None:
    """Its totals are 0 in every region, another's stay; run again, the file counts as before."""
    raws = traffic("Reset")
    file = tmp_path / "records.jsonl"
    file.write_bytes(lines(raws))
    both = {name: {**PIPELINE, "categories": ["reset/{Hierarchy.Desk}"]} for name in ("fx", "fy")}
    config = desk.write_settings(desk.settings(pipelines=both))
    right = {"reset/Reset": truth(raws)["risk/Reset"]}
    twice = {name: 2 * value for name, value in right.items()}
    for name in both:
        said = pipeline("run", str(file), "--pipeline", name, config=config)
        assert said.exit_code == 0, said.output
    for words, expected in (
        (("reset", "--pipeline", "fx", "--confirm", "fx"), right),
        (("run", str(file), "--pipeline", "fx"), twice),
    ):
        said = pipeline(*words, config=config)
        assert said.exit_code == 0, said.output
        desk.wait_replicated()
        assert desk.portal.call(shown, desk.settings(), right) == everywhere(expected)
    for name in both:
        said = pipeline("status", str(file), "--pipeline", name, config=config)
        assert f"{file.stat().st_size:,}" in said.stdout
        assert "0 bytes" in said.stdout


def test_a_rebuild_gives_all_states_other_categories(desk: Desk, tmp_path: Path) -> None:
    """A dry run says what the rebuild does; a state without a field takes it from the file."""
    raws = [raw for raw in traffic("Rebuild") if raw != POISON]
    file = tmp_path / "records.jsonl"
    file.write_bytes(lines(raws))
    before = {**PIPELINE, "name": "rebuilt", "categories": ["before/{Hierarchy.Desk}"]}
    after = {**before, "categories": ["after/{Hierarchy.RiskType}"]}
    said = pipeline("run", str(file), config=desk.write_settings(desk.settings(pipeline=before)))
    assert said.exit_code == 0, said.output
    config = desk.write_settings(desk.settings(pipeline=after))
    total = truth(raws)["risk/Rebuild"]
    for words, code, last in (
        (["--dry-run"], 1, f"{TRADES} states, 0 would be rewritten"),
        ([], 1, f"{TRADES} states, 0 rewritten"),
        (["--from", str(file), "--dry-run"], 0, f"{TRADES} states, {TRADES} would be rewritten"),
        (["--from", str(file)], 0, f"{TRADES} states, {TRADES} rewritten"),
        (["--dry-run"], 0, f"{TRADES} states, 0 would be rewritten"),
    ):
        said = pipeline("rebuild", *words, config=config)
        assert (said.exit_code, said.stdout.splitlines()[-1]) == (code, last), said.output
        if words[:1] == ["--from"]:
            assert f"after/Rebuild: {total}" in said.stdout
            assert f"before/Rebuild: {-total}" in said.stdout
    desk.wait_replicated()
    right = {"after/Rebuild": total, "before/Rebuild": Decimal(0)}
    assert desk.portal.call(shown, desk.settings(), right) == everywhere(right)
    said = pipeline("audit", config=config)
    assert (said.exit_code, "all exact" in said.stdout) == (0, True), said.output


ADAPTS = """
def negative(record):
    return {**record, "Value": -record["Value"]}
"""


def test_records_go_through_a_function(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States from before it lack what a rebuild needs; from the file they are read through it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "adapts_negative.py").write_text(ADAPTS)
    raws = [raw for raw in traffic("Adapt") if raw != POISON]
    file, more = tmp_path / "records.jsonl", tmp_path / "more.jsonl"
    file.write_bytes(lines(raws))
    more.write_bytes(lines([message("E-more", 1, 3, "Adapt", "Adapt")]))
    before = {**PIPELINE, "name": "adapted", "categories": ["adapt/{Hierarchy.Desk}"]}
    after = {**before, "adapt": "adapts_negative:negative"}
    said = pipeline("run", str(file), config=desk.write_settings(desk.settings(pipeline=before)))
    assert said.exit_code == 0, said.output
    config = desk.write_settings(desk.settings(pipeline=after))
    for words, code, last in (
        (["rebuild"], 1, f"{TRADES} states, 0 rewritten"),
        (["rebuild", "--from", str(file)], 0, f"{TRADES} states, {TRADES} rewritten"),
        (["rebuild", "--dry-run"], 0, f"{TRADES} states, 0 would be rewritten"),
        (["run", str(more)], 0, ""),
        (["audit"], 0, ""),
    ):
        said = pipeline(*words, config=config)
        assert said.exit_code == code, said.output
        assert last in said.stdout.splitlines()[-1]
    desk.wait_replicated()
    right = {"adapt/Adapt": -truth(raws)["risk/Adapt"] - 3}
    assert desk.portal.call(shown, desk.settings(), right) == everywhere(right)


def test_dead_letters_are_replayed_once_after_a_fix(desk: Desk, tmp_path: Path) -> None:
    """Mended settings take the letters in, each once; what dies again is kept with its place."""
    raws = [message("D1", 1, 5, "Dead", "D"), POISON, message("D2", 1, 7, "Dead", "D")]
    file, dead = tmp_path / "records.jsonl", tmp_path / "records.jsonl.dead"
    file.write_bytes(lines(raws))
    broken = {**PIPELINE, "categories": ["risk/{Hierarchy.Missing}"]}
    wrong = desk.write_settings(desk.settings(pipeline=broken), "wrong.yaml")
    config = desk.write_settings(desk.settings(pipeline=PIPELINE))
    said = pipeline("run", str(file), config=wrong)
    assert (said.exit_code, "3 dead" in said.stdout) == (0, True), said.output
    for records in ("3 records in", "0 records in"):
        said = pipeline("replay", str(dead), config=config)
        assert (said.exit_code, records in said.stdout) == (0, True), said.output
    right = truth(raws)
    desk.wait_replicated()
    assert desk.portal.call(shown, desk.settings(), right) == everywhere(right)
    (again,) = dead.with_name(f"{dead.name}.dead").read_text().splitlines()
    letter, content = letter_of(again), dead.read_bytes()
    first = content[: place_of(letter.position)].splitlines()[-1]
    assert json.loads(first)["record"] == POISON.decode() == letter.raw.decode()
    said = pipeline("status", str(file), str(dead), config=config)
    assert said.exit_code == 0, said.output
    rows = [row.split() for row in said.stdout.splitlines() if "@" in row]
    assert [row[-4:] for row in rows] == [
        [f"{one.stat().st_size:,}", "0", "bytes", "0"] for one in (file, dead)
    ]


def test_dead_letters_are_edited_and_replayed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an editor, or in the file itself after a replay; what counts already counts once."""
    right = [
        message(name, 1, value, "Edit", "E") for name, value in (("E1", 5), ("E2", 7), ("E3", 7))
    ]
    file, dead = tmp_path / "records.jsonl", tmp_path / "records.jsonl.dead"
    file.write_bytes(lines([raw.replace(b'"Value": 7', b'"Value": "seven"') for raw in right]))
    config = desk.write_settings(desk.settings(pipeline=PIPELINE))
    assert "2 dead" in pipeline("run", str(file), config=config).stdout
    listed = (
        CliRunner().invoke(app, ["pipeline", "letters", str(dead), "--json"]).stdout.splitlines()
    )
    letter = json.loads(listed[0])
    assert (len(listed), letter["count"]) == (2, 1)
    monkeypatch.setenv("EDITOR", "sed -i s/seven/7/")
    said = pipeline("replay", str(dead), "--only", letter["position"], "--edit", config=config)
    assert (said.exit_code, "1 records in" in said.stdout) == (0, True), said.output
    assert "2 records in" in pipeline("replay", str(dead), config=config).stdout
    dead.write_bytes(dead.read_bytes().replace(b"seven", b"7"))
    said = pipeline("replay", str(dead), config=config)
    assert (said.exit_code, "2 records in" in said.stdout) == (0, True), said.output
    desk.wait_replicated()
    counted = truth(right)
    assert desk.portal.call(shown, desk.settings(), counted) == everywhere(counted)
    monkeypatch.setenv("EDITOR", "false")
    said = pipeline("replay", str(dead), "--edit", config=config)
    assert said.exit_code == 1
    assert "false ended with status 1: nothing was replayed" in str(said.exception)


async def test_standard_input_is_kept_and_finished_from_there(desk: Desk, tmp_path: Path) -> None:
    """A stream is brought in while it is kept in a file, which is the same lane afterwards."""
    settings, raws = desk.settings(pipeline=PIPELINE), traffic("Rho")
    given, kept = lines(raws), tmp_path / "kept.jsonl"
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb") as stream, os.fdopen(writable, "wb") as pipe:
        pipe.write(given)
        pipe.flush()
        spool = Spool(stream, kept)
        spool.begin()
        lane = LaneRun(None, HOME, kept, tmp_path / "dead")
        pipe.close()
        progress = LaneProgress(kept, CollectorRegistry())
        await bring_in(lane, settings, progress, spool=spool, report=pytest.fail)
    assert kept.read_bytes() == given
    assert progress.figures().records == len(raws)
    again = LaneProgress(kept, CollectorRegistry())
    await bring_in(lane, settings, again, report=pytest.fail)
    assert (again.figures().records, again.bytes_counted) == (0, len(given))
    right = truth(raws)
    while await shown(settings, right) != everywhere(right):
        pass
    with pytest.raises(LedgerError, match="exists already"):
        Spool(stream, kept).begin()


async def test_a_followed_file_is_brought_in_until_a_signal(desk: Desk, tmp_path: Path) -> None:
    """Lines that come later are taken, half a line is not; SIGTERM ends it in good order."""
    path, settings = tmp_path / "records.jsonl", desk.settings(pipeline=PIPELINE)
    early, late = message("F1", 1, 5, "Theta", "F"), message("F2", 1, 7, "Theta", "F")
    path.write_bytes(lines([early]))
    lane = LaneRun(None, HOME, path, tmp_path / "dead", follows=True)
    progress, told = LaneProgress(path, CollectorRegistry()), list[str]()

    async def until_shown(raws: list[bytes]) -> None:
        right = truth(raws)
        while await shown(settings, right) != everywhere(right):
            pass

    async def append_and_end() -> None:
        await until_shown([early])
        with path.open("ab") as file:
            file.write(lines([late]) + b'{"half')
        await until_shown([early, late])
        os.kill(os.getpid(), SIGTERM)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append_and_end)
        came = await bring_in(lane, settings, progress, report=told.append)
    assert (came.number, came.is_cut_off, len(told)) == (SIGTERM, False, 1)
    figures = progress.figures()
    assert (figures.records, figures.dead) == (2, 0)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["run", "-"], "standard input requires --spool with a new file"),
        (["run", "there.jsonl", "--spool", "x"], "--spool requires standard input"),
        (["run", "missing.jsonl"], "cannot be read"),
        (["run", "there.jsonl", "--region", "ap-south-1"], "not one of the regions"),
        (["replay", "there.jsonl", "--dead", "there.jsonl"], "which is being read"),
    ],
)
def test_what_cannot_be_done_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: list[str], error: str
) -> None:
    """Each refusal is an error that says what to do, before anything is written."""
    monkeypatch.chdir(desk.folder)
    (desk.folder / "there.jsonl").write_bytes(lines([message("T1", 1, 1)]))
    config = desk.write_settings(desk.settings(pipeline=PIPELINE))
    ran = pipeline(*words, config=config)
    assert error in str(ran.exception)
