import ast
import re
from importlib.resources import files
from typing import Any

from support.ledgers import InstantClock, seeded

from ledger.primitives.counters import METHODS
from ledger.store.memory import MemoryStore

PAGE = (files("ledger.primitives.counters") / "README.md").read_text(encoding="utf-8")


async def test_the_example_runs() -> None:
    """The example of the page does what it says, from a counter of 1."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    store, clock = MemoryStore("us-east-1"), InstantClock()
    stock = METHODS["marker"].make(store, "stock-4711", clock=clock, randomness=seeded())
    await stock.add(1)
    names: dict[str, Any] = {"store": store, "clock": clock, "randomness": seeded(8)}
    code = compile(example, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)  # noqa: S307 (our own page)
    assert await stock.value() == 0


def test_every_method_is_on_the_page() -> None:
    """The table and the sections know every method of the registry."""
    for method in METHODS:
        assert f"`{method}`" in PAGE
