"""Whatever happens to an import, run again it gives the exact totals."""

from collections.abc import Iterable, Iterator, Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.importing import (
    COMBINED,
    SETTINGS,
    Fate,
    FateStore,
    Killed,
    MarkerlessStore,
    changes_of,
    imported,
    markers_of,
    source_of,
    sums_of,
)
from support.live import Live

from ledger.core import amounts
from ledger.store.memory import MemoryTable
from ledger.writes.imports.file_format import BATCH_ROWS, Form
from ledger.writes.imports.rows import BadRow, Row, read_rows
from ledger.writes.imports.survey import StopSign

RUNS_MAX = 40

FATES: st.SearchStrategy[Fate] = st.sampled_from(
    [
        "applied",
        "applied, no answer",
        "lost, no answer",
        "lands later",
        "throttled",
        "killed before",
        "killed after",
    ]
)


@st.composite
def changes_of_several_batches(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Draw rows for up to four batches, some of them bad, whole batches now and then."""
    count = draw(st.integers(0, 4 * BATCH_ROWS))
    bad = draw(st.sets(st.integers(0, 4 * BATCH_ROWS), max_size=10))
    bad_from = draw(st.integers(0, 8 * BATCH_ROWS))
    randomness = draw(st.randoms(use_true_random=False))
    return [
        (
            randomness.choice("abc"),
            "bad"
            if row in bad or bad_from <= row < bad_from + BATCH_ROWS
            else f"{randomness.randint(-100_000, 100_000)}E-2",
        )
        for row in range(count)
    ]


def csv_text(changes: Sequence[tuple[str, str]]) -> str:
    """Return a file of these rows and one good one more, so that it is never refused."""
    return "counter,change\nz,1\n" + "".join(f"{name},{change}\n" for name, change in changes)


async def run_until_finished(
    content: str, store: FateStore, stops: Sequence[int], combined: Iterable[bool] = ()
) -> None:
    """Run again after every kill, error and stop; `stops` says after how many batches to stop.

    `combined` says at each look at the contract whether it combines counters; the last one stays.
    """
    found = [COMBINED if is_combined else SETTINGS for is_combined in combined]
    live = Live(*found or [SETTINGS])
    for run in range(RUNS_MAX):
        stop = StopSign()
        batches_left = iter(range(stops[run] if run < len(stops) else RUNS_MAX))

        def on_batch(
            _done: object, stop: StopSign = stop, left: Iterator[int] = batches_left
        ) -> None:
            if next(left, None) is None:
                stop.ask()

        finished = False
        try:
            finished = (
                await imported(content, store, stop=stop, on_batch=on_batch, settings=live)
            ).finished
        except* Killed:
            pass
        if finished:
            return
    raise AssertionError(f"not finished after {RUNS_MAX} runs")


@given(
    changes=changes_of_several_batches(),
    fates=st.lists(FATES, max_size=20),
    stops=st.lists(st.integers(0, 4), max_size=4),
    combined=st.lists(st.booleans(), max_size=20),
)
def test_interrupted_anywhere_the_rows_are_exact(
    changes: Sequence[tuple[str, str]],
    fates: Sequence[Fate],
    stops: Sequence[int],
    combined: Sequence[bool],
) -> None:
    """Any file, any mix of outcomes, kills and stops: run to the end, each row is there once.

    Whichever rows shared an item at each try, because the contract combined their counter.
    """
    table, content = MemoryTable(), csv_text(changes)

    async def scenario() -> None:
        store = FateStore(table, fates)
        await run_until_finished(content, store, stops, combined)
        await store.land()
        again = await imported(content, store)
        assert (again.rows, again.batches, again.finished) == (0, 0, True)

    anyio.run(scenario)
    good = [("z", "1"), *((name, change) for name, change in changes if change != "bad")]
    rows = sorted((name, amounts.parse(change)) for name, change in good)
    shown = changes_of(table).items()
    assert sorted((name, change) for name, each in shown for change in each) == rows
    assert len(markers_of(table)) == -(-(len(changes) + 1) // BATCH_ROWS)
    assert sums_of(table) == {
        name: amounts.total(change for other, change in rows if other == name) for name, _ in rows
    }


@pytest.mark.parametrize("combined", [[False], [True], [True, False]])
def test_the_property_can_fail(combined: Sequence[bool]) -> None:
    """The mutant: without markers the same scenario counts rows twice."""
    table = MemoryTable()

    async def scenario() -> None:
        store = MarkerlessStore(table, ["applied", "killed after"])
        await run_until_finished(csv_text([("a", "1")] * 200), store, [], combined)

    anyio.run(scenario)
    assert len(changes_of(table)["a"]) > 200


@given(st.text(st.sampled_from('ab1,.-"\n\r~ é\x00'), max_size=80))
def test_no_text_breaks_the_reader_and_no_line_is_lost(body: str) -> None:
    """Any text gives rows that, put together, are the text itself; lines rise."""
    source = source_of(f"counter,change\n{body}")
    rows = read_rows(source.lines(source.hashed(), encoding="utf-8"), Form(encoding="utf-8"))
    found: list[Row | BadRow] = list(rows)
    lines = [row.line for row in found]
    assert lines == sorted(set(lines))
    blank = str.maketrans("", "", "\r\n")
    assert "".join(row.raw for row in found).translate(blank) == body.translate(blank)


@given(st.binary(max_size=120))
def test_no_bytes_break_the_reader(body: bytes) -> None:
    """Any bytes after a header give rows, good or bad, that keep every byte but blank lines."""
    source = source_of(b"counter,change\n" + body)
    rows = read_rows(source.lines(source.hashed(), encoding="utf-8"), Form(encoding="utf-8"))
    kept = b"".join(row.raw.encode(errors="surrogateescape") for row in rows)
    for line_end in (b"\r", b"\n"):
        body, kept = body.replace(line_end, b""), kept.replace(line_end, b"")
    assert kept == body


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "cp1250", "utf-16-le"])
def test_every_text_is_read_in_its_encoding(encoding: str) -> None:
    """What a program wrote in an encoding is read back in it, to the letter."""

    @settings(max_examples=40)
    @given(st.text(st.sampled_from("aáéz, \"'\n"), max_size=30))
    def reads_back(note: str) -> None:
        quoted = note.replace('"', '""')
        content = f'counter,change,note\na,1,"{quoted}"\n'.encode(encoding)
        source = source_of(content)
        form = Form(encoding=encoding)
        (row,) = read_rows(source.lines(source.hashed(), encoding=encoding), form)
        assert isinstance(row, Row)
        assert row.note == (note or None)

    reads_back()
