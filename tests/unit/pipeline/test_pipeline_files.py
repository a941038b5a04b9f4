"""Files as a run brings them in, whatever comes to their paths meanwhile."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import HOME, make_services
from support.pipelines import message, pipeline_settings, shown, truth

from ledger.pipeline.file_runs import LaneRun, PipelineRun
from ledger.pipeline.progress import LaneProgress
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.store.wrappers.forwarder import ForwardingStore

FORMER = [message(f"T{trade}", 1, trade) for trade in range(9)]
OTHER = [FORMER[0], *(message(f"X{trade}", 1, 10 + trade) for trade in range(9))]


def write(path: Path, raws: list[bytes]) -> None:
    """Write records as a file has them."""
    path.write_bytes(b"".join(raw + b"\n" for raw in raws))


async def test_a_file_is_read_that_was_found_although_another_has_its_path(tmp_path: Path) -> None:
    """An export with the same first line comes while the run begins: it is the next run's."""
    path, store = tmp_path / "records.jsonl", MemoryStore(HOME)
    write(path, FORMER)

    class Exporting(ForwardingStore):
        async def query(self, query: Query) -> Page:
            page = await super().query(query)
            if not (kept := tmp_path / "records.jsonl.1").exists():
                path.rename(kept)
                write(path, OTHER)
            return page

    async def bring_in(file: Path) -> int:
        progress = LaneProgress(file, CollectorRegistry())
        run = PipelineRun(
            HOME,
            {HOME: Exporting(store)},
            pipeline_settings(),
            progress,
            services=make_services(),
            report=pytest.fail,
        )
        await run.bring_in(LaneRun(None, HOME, file, tmp_path / "dead"))
        return progress.figures().records

    assert await bring_in(path) == len(FORMER)
    assert shown(store.table) == truth(FORMER)
    assert await bring_in(tmp_path / "records.jsonl.1") == 0
    assert await bring_in(path) == len(OTHER)
    assert shown(store.table) == truth([*FORMER, *OTHER])
