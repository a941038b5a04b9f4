"""The how-to of the pipeline: its settings, as they are written."""

import re
from importlib.resources import files
from pathlib import PurePath

import pytest
import yaml
from anyio import Path
from support.ledgers import HOME, make_settings, seeded
from support.pipelines import POISON, message, shown, truth

from ledger.pipeline.sources.dead_letters import letter_of
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.table import Table
from ledger.testing.clock import ManualClock

PAGE = (files("ledger") / "docs/howto/read-records-from-files.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """Return the page's only example of a kind."""
    (found,) = re.findall(rf"^ *```{kind}\n(.*?)^ *```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return str(found)


async def test_the_settings_of_the_page_count(
    tmp_path: PurePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its settings a file of records is counted, run once or twice, and its poison kept."""
    monkeypatch.chdir(str(tmp_path))
    raws = [message("T1", 1, 5), POISON, message("T1", 2, "7.5", desk="B")]
    await Path("records.jsonl").write_bytes(b"".join(raw + b"\n" for raw in raws))
    store, settings = MemoryStore(HOME), make_settings(**yaml.safe_load(block("yaml")))
    for _ in range(2):
        table = Table(
            settings,
            region=HOME,
            given=GivenConnections(store=store),
            services=Services.of(clock=ManualClock(instant=True), randomness=seeded()),
        )
        opening = table.pipeline("records.jsonl", "records.jsonl", dead_letters="dead.jsonl")
        async with table, opening as pipeline:
            await pipeline.run()
        assert shown(store.table) == truth(raws)
    (letter,) = map(letter_of, (await Path("dead.jsonl").read_text()).splitlines())
    assert letter.raw == POISON
