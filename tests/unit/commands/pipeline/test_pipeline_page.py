"""The pipeline's page: its settings and its example, as they are written."""

import ast
import re
from importlib.resources import files
from pathlib import PurePath

import pytest
import yaml
from anyio import Path
from support.ledgers import HOME, InstantClock, make_settings, seeded
from support.pipelines import POISON, message, shown, truth

from ledger.pipeline.sources.dead_letters import letter_of
from ledger.store.memory import MemoryStore

PAGE = (files("ledger.pipeline") / "README.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """Return the page's only example of a kind."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return str(found)


async def test_the_example_runs(tmp_path: PurePath, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of records is brought in, killed or not, and its poison kept."""
    monkeypatch.chdir(str(tmp_path))
    raws = [message("T1", 1, 5), POISON, message("T1", 2, "7.5", desk="B")]
    await Path("trades.jsonl").write_bytes(b"".join(raw + b"\n" for raw in raws))
    store = MemoryStore(HOME)
    names = {
        "settings": make_settings(**yaml.safe_load(block("yaml"))),
        "store": store,
        "clock": InstantClock(),
        "randomness": seeded(),
    }
    code = compile(block("python"), "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for _ in range(2):
        await eval(code, dict(names))  # noqa: S307 (our own page)
        assert shown(store.table) == truth(raws)
    (letter,) = map(letter_of, (await Path("dead.jsonl").read_text()).splitlines())
    assert letter.raw == POISON
