"""The compactor: merges entries into net changes, invisibly to every reader."""

from compactor.job import Compactor
from compactor.report import Report

__all__ = ["Compactor", "Report"]
