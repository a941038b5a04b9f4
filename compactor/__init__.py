"""The compactor: merges entries into net changes, invisibly to every reader.

Each name is loaded when it is first used, so that the program answers an interrupt while it loads.
"""

from typing import TYPE_CHECKING

from ledger.runtime.lazy_names import loader

if TYPE_CHECKING:
    from compactor.job import Compactor
    from compactor.report import CompactorReport

__all__ = ["Compactor", "CompactorReport"]

_PLACES = {"Compactor": "compactor.job", "CompactorReport": "compactor.report"}


if not TYPE_CHECKING:  # a type checker knows the names above, and no others
    __getattr__ = loader(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted(__all__)
