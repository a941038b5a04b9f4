"""How far a lane is behind, whether its records carry their own time or not."""

import gzip
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipelines import deliveries, message

from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import LetterSource
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.source import LagUnit, ListSource
from ledger.pipeline.stages.worker import LaneLag
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultCall, FaultyStore
from ledger.testing.clock import START, ManualClock


def lag_of(metrics: PipelineMetrics) -> float:
    """Return the lag that a scrape would show."""
    (found,) = metrics.lag.collect()
    return sum(sample.value for sample in found.samples)


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_lag_is_that_of_the_oldest_record_not_counted(*, is_known: bool) -> None:
    """It grows while a batch is held up, by its own time or from when it was read; then it is 0."""
    metrics, clock, lags = PipelineMetrics(), ManualClock(instant=True), list[float]()

    def held_up(call: FaultCall) -> None:
        if call.operation == "transact":  # the batch's commit, then its reduce
            clock.pass_by(60)
        lags.append(lag_of(metrics))

    at = clock.now() - timedelta(seconds=5) if is_known else None
    records = [delivery._replace(at=at) for delivery in deliveries([message("T1", 1, 10)])]
    store = FaultyStore(MemoryStore(HOME), held_up)
    await lane_worker(records, store, metrics=metrics, clock=clock, reduce_every=0).run()
    age = 5.0 if is_known else 0.0
    assert {age, age + 60, age + 120} <= set(lags)
    assert lag_of(metrics) == 0


def scraped(registry: CollectorRegistry, name: str) -> list[float]:
    """Return the samples of a metric that a scrape shows."""
    lines = generate_latest(registry).decode().splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")]


async def test_a_scrape_shows_the_bytes_that_no_total_shows(tmp_path: Path) -> None:
    """From the position that is committed to the file's end by now, whenever it is scraped."""
    registry, file, shown = CollectorRegistry(), tmp_path / "records.jsonl", list[float]()
    raws = [message(f"T{number}", 1, 10) for number in range(4)]
    file.write_bytes(b"".join(raw + b"\n" for raw in raws[:2]))
    size = file.stat().st_size

    def look(call: FaultCall) -> None:
        if call.operation == "transact":
            shown.extend(scraped(registry, "ledger_pipeline_lag_bytes"))

    store, metrics = FaultyStore(MemoryStore(HOME), look), PipelineMetrics(registry)
    assert scraped(registry, "ledger_pipeline_lag_bytes") == []
    await lane_worker(FileSource(file), store, metrics=metrics).run()
    assert shown[0] == size
    assert scraped(registry, "ledger_pipeline_lag_bytes") == [0]
    with file.open("ab") as more:
        more.write(b"".join(raw + b"\n" for raw in raws[2:]))
    assert scraped(registry, "ledger_pipeline_lag_bytes") == [file.stat().st_size - size]
    shown.clear()
    await lane_worker(FileSource(file), store, metrics=metrics).run()
    assert shown[0] == file.stat().st_size - size  # not the whole file, of which half was in
    file.unlink()
    assert scraped(registry, "ledger_pipeline_lag_bytes") == [0]


async def test_dead_letters_lag_as_their_file_and_compressed_ones_do_not(tmp_path: Path) -> None:
    """The length of a compressed file is not that of what it holds, so it has no sample."""
    file, packed = tmp_path / "records.jsonl", tmp_path / "records.jsonl.gz"
    line = message("T1", 1, 10) + b"\n"
    file.write_bytes(line)
    packed.write_bytes(gzip.compress(line))
    for source, expected in (
        (LetterSource(FileSource(file)), [0.0]),
        (FileSource(packed), []),
        (LetterSource(ListSource(deliveries([line]))), []),
    ):
        registry = CollectorRegistry()
        await lane_worker(source, MemoryStore(HOME), metrics=PipelineMetrics(registry)).run()
        assert scraped(registry, "ledger_pipeline_lag_bytes") == expected
        assert scraped(registry, "ledger_pipeline_lag_seconds") == [0.0]
    assert LetterSource(FileSource(file)).lag_after("") == len(line)
    assert LetterSource(ListSource(())).lag_after("") == 0


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("records", "ledger_pipeline_lag_records"),
        ("seconds", "ledger_pipeline_lag_source_seconds"),
    ],
)
def test_what_a_stream_says_is_shown_in_its_unit(unit: LagUnit, name: str) -> None:
    """Offsets of a partition, seconds of a shard: after the position that the totals show."""

    class Source:
        lag_unit = unit

        def lag_after(self, position: str) -> float:
            return 100.0 - int(position)

    registry = CollectorRegistry()
    lag = LaneLag(PipelineMetrics(registry), HOME, "lane", ManualClock(), Source())
    lag.begin("20")
    assert scraped(registry, name) == [80]
    lag.counted("90")
    assert scraped(registry, name) == [10]
    assert scraped(registry, "ledger_pipeline_lag_bytes") == []


def test_a_batch_in_parts_lags_until_the_last_is_counted() -> None:
    """One whose records were parked is committed in several; none of them takes another away."""
    clock = ManualClock()
    clock.wall = START + timedelta(seconds=9)
    lag = LaneLag(PipelineMetrics(CollectorRegistry()), "us-east-1", "lane", clock)
    lag.read(START, "04")
    lag.read(START + timedelta(seconds=5), "08")
    shown = []
    for upto in ("01", "03", "04", "06", "08", "08"):
        lag.counted(upto)
        shown.append(lag.seconds())
    assert shown == [9.0, 9.0, 4.0, 4.0, 0.0, 0.0]
