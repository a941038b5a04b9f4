"""The compactor: merges entries into net changes, invisibly to every reader.

Each name is loaded when it is first used, so that the program answers an interrupt while it loads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compactor.job import Compactor
    from compactor.report import CompactorReport

__all__ = ["Compactor", "CompactorReport"]

_PLACES = {"Compactor": "compactor.job", "CompactorReport": "compactor.report"}


if not TYPE_CHECKING:  # a type checker knows the names above, and no others

    def __getattr__(name: str) -> Any:
        """Load a public name from its module (PEP 562)."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_PLACES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
