from importlib.resources import files

from ledger.primitives.counters import METHODS

PAGE = (files("ledger.primitives.counters") / "README.md").read_text(encoding="utf-8")


def test_every_method_is_on_the_page() -> None:
    """The table and the sections know every method of the registry."""
    for method in METHODS:
        assert f"`{method}`" in PAGE
