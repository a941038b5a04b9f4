"""The archive's commands, on a table of this process's."""

import csv
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from support.ledgers import make_settings
from typer.testing import CliRunner

from compactor import Compactor
from ledger.commands import archive, export, history, verify
from ledger.core.errors import InvalidInput
from ledger.core.values import Entry
from ledger.local import LocalGlobalTable
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.settings.model import CONTRACTED

REGIONS = ("us-east-1", "eu-west-1")


def written(settings: Settings, folder: Path) -> str:
    """Write the settings file of a table; return its path."""
    values = settings.model_dump(mode="json", exclude=set(CONTRACTED))
    path = folder / "regions.yaml"
    # In their order: without `home` the first region is the one that is read.
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return str(path)


async def filled(settings: Settings) -> list[Entry]:
    """Record entries of two counters, and merge those of a first part."""
    made = []
    async with Ledger.open(settings) as ledger:
        for number in range(3):
            change = Decimal(f"1.5{number}")
            made += [await ledger.record("a", change, note=f"note {number}")]
        made += [await ledger.record("b, c", 2)]
        while (await ledger.total("a", max_age=0)).entries:
            await anyio.sleep(0.5)
            await Compactor(settings).run_once()
        for _ in range(4):  # so that they are deleted
            await anyio.sleep(0.5)
            await Compactor(settings).run_once()
        made += [await ledger.record("a", 7, note="last")]
    return made


class Commands:
    """Runs commands beside a table."""

    def __init__(self, config: str) -> None:
        self._config = config

    async def run(self, app: Any, *arguments: str, code: int = 0) -> str:
        """Run a command in a thread, and return what it printed."""

        def call() -> Any:
            return CliRunner().invoke(app, [*arguments, "--config", self._config])

        result = await anyio.to_thread.run_sync(call)
        assert result.exit_code == code, (result.output, result.exception)
        return str(result.stdout)


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[tuple[LocalGlobalTable, Settings]]:
    """Run a table with an archive in a folder."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.0) as world:
        yield (
            world,
            world.settings(
                settle=1.0,
                retry_horizon=0.3,
                observation_delay=0.2,
                read_deadline=0.1,
                archive=[f"file://{tmp_path}/archive"],
                compactor={"fold_min": 1},
            ),
        )


@pytest.mark.slow
async def test_what_an_operator_does(
    table: tuple[LocalGlobalTable, Settings], tmp_path: Path
) -> None:
    """Export, verify, history, erase, sweep, rebuild; a flipped byte is found."""
    _, settings = table
    made = await filled(settings)
    commands = Commands(written(settings, tmp_path))
    rows = [json.loads(line) for line in (await commands.run(export.app)).splitlines()]
    assert [row["id"] for row in rows] == [entry.id for entry in sorted(made, key=_place)]
    out = tmp_path / "out.csv"
    await commands.run(export.app, "a", "--format", "csv", "--output", str(out))
    with out.open(newline="", encoding="utf-8") as file:
        assert [row["change"] for row in csv.DictReader(file)] == ["1.5", "1.51", "1.52", "7"]
    shown = await commands.run(history.app, "a", "--json", "--since", _time(made[1]))
    assert [json.loads(line)["note"] for line in shown.splitlines()] == ["note 1", "note 2", "last"]
    assert await commands.run(verify.app, "--archive") == ""
    assert await commands.run(archive.app, "erase", "a", made[1].id) == "1 notes erased\n"
    assert "0 objects removed" in await commands.run(archive.app, "sweep")
    assert "were there" in await commands.run(archive.app, "rebuild")
    assert await commands.run(verify.app, "--archive", "a") == ""
    kept = next((tmp_path / "archive").iterdir())
    data = bytearray(kept.read_bytes())
    data[40] ^= 1
    kept.write_bytes(data)
    assert f"object {kept.name}" in await commands.run(verify.app, "--archive", code=1)


@pytest.mark.tools("pyarrow")
async def test_parquet(table: tuple[LocalGlobalTable, Settings], tmp_path: Path) -> None:
    """Amounts are decimals; one with more places than the file's is refused, nothing is left."""
    from pyarrow import parquet  # noqa: PLC0415 (of another extra)

    _, settings = table
    await filled(settings)
    commands = Commands(written(settings, tmp_path))
    out = tmp_path / "out.parquet"
    arguments = ("a", "--format", "parquet", "--output", str(out))
    await commands.run(export.app, *arguments, "--scale", "2")
    assert parquet.read_table(out).column("change").to_pylist() == [
        Decimal(text) for text in ("1.50", "1.51", "1.52", "7.00")
    ]
    out.unlink()
    for scale in ("1", "38"):  # CliRunner shows an error of ours as 1
        await commands.run(export.app, *arguments, "--scale", scale, code=1)
        assert left_in(tmp_path) == []


def left_in(folder: Path) -> list[str]:
    """Return the names of exports, whole or half written."""
    return [one.name for one in folder.iterdir() if "out" in one.name or one.name[0] == "."]


@pytest.mark.tools("pyarrow")
@pytest.mark.parametrize(
    ("change", "scale", "said"),
    [
        ("9" * 38, 0, ""),
        ("9" * 38, 1, "more than 37 digits before the point"),
        ("0." + "9" * 38, 38, ""),
        ("0", 38, ""),
        ("1." + "9" * 37, 36, "more than 36 decimal places"),
    ],
)
def test_amounts_that_a_parquet_file_cannot_hold(
    tmp_path: Path, change: str, scale: int, said: str
) -> None:
    """Each of 38 digits is kept exactly, or refused with the scale that helps."""
    entry = Entry("a", "id", Decimal(change))
    with ExitStack() as stack:
        writer = export._Parquet(tmp_path / "out", scale, stack, with_legs=False)
        if said:
            with pytest.raises(InvalidInput, match=said):
                writer.take(entry)
        else:
            writer.take(entry)
            writer.end()


async def test_an_export_that_cannot_be_written(
    table: tuple[LocalGlobalTable, Settings], tmp_path: Path
) -> None:
    """A folder in the file's place, or none around it, is an error of one line; nothing is left."""
    _, settings = table
    config = written(settings, tmp_path)
    (tmp_path / "folder").mkdir()
    for output, rule in (("folder", "is a folder"), ("none/out", "there is no folder")):
        arguments = ["a", "--output", str(tmp_path / output), "--config", config]
        with pytest.raises(InvalidInput, match=rule):
            await anyio.to_thread.run_sync(
                partial(CliRunner().invoke, export.app, arguments, catch_exceptions=False)
            )
    assert left_in(tmp_path) == []


def _place(entry: Entry) -> tuple[str, str]:
    return entry.counter, entry.id


def _time(entry: Entry) -> str:
    assert entry.at is not None
    return entry.at.isoformat()


@pytest.mark.parametrize(
    "words",
    [
        ["--archive", "--restored", "2026-11-24T03:00Z"],
        ["--archive", "--restored", "2026-11-24T03:00Z/2026-11-24T02:00Z"],
        ["--archive", "--restored", "2026-11-24T03:00/2026-11-24T04:00Z"],
        ["--restored", "2026-11-24T03:00Z/2026-11-24T04:00Z"],
    ],
)
def test_a_restore_is_two_times_of_an_archive(words: list[str]) -> None:
    """Both with a zone, in order, and with --archive; else nothing is read."""
    ran = CliRunner().invoke(verify.app, words)
    assert isinstance(ran.exception, InvalidInput)
    assert "--restored" in str(ran.exception)


def test_without_an_archive_nothing_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every item of the table would be read, and charged, before the refusal."""
    refusal = InvalidInput("table ledger has no archive")

    def no_archive(_settings: Settings) -> None:
        raise refusal

    monkeypatch.setattr(verify, "opened", no_archive)
    monkeypatch.setattr(verify, "_verify", None)  # cannot be called
    config = written(make_settings(), tmp_path)
    assert CliRunner().invoke(verify.app, ["--archive", "--config", config]).exception is refusal
