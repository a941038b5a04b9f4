"""The compactor: merges entries into net changes, invisibly to every reader."""

from compactor.job import Compactor
from compactor.report import CompactorReport

__all__ = ["Compactor", "CompactorReport"]
