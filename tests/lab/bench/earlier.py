"""Reports read back: what earlier runs wrote with --json, as one report to show and to draw."""

import math
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lab.bench.cases import ALL
from lab.bench.options import BenchOptions
from lab.bench.report import LADDER, ROUND_FIGURES, VERSION, BenchReport, CaseResult
from lab.bench.scale_stages import STAGES
from ledger.core.errors import InvalidInput
from ledger.settings.rules import rule_of

_REPORT = TypeAdapter(BenchReport)
_RUNGS = frozenset(case.name for case in ALL if case.group == LADDER)
_RUNG_FIGURES = frozenset(f"{stage}: work" for stage in STAGES)
"""Whatever else a rung lacks is left out of tables and pictures."""


def read_reports(files: Sequence[Path], options: BenchOptions) -> BenchReport:
    """Return the cases of all files as one report, with the machine of each.

    Raises:
        InvalidInput: a file cannot be read, is no report of this version, or lacks a figure; or
            two files have the same case.
    """
    found = [_read(file) for file in files]
    results = tuple(result for report in found for result in report.results)
    names = [result.name for result in results]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InvalidInput(f"--from: {twice[0]!r} is there twice")
    return BenchReport({"earlier": [report.machine for report in found]}, options, results)


def _read(file: Path) -> BenchReport:
    try:
        report = _REPORT.validate_json(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"--from {file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidInput(f"--from {file}: {place}: {rule_of(first)}") from None
    if report.version != VERSION:
        raise InvalidInput(f"--from {file}: a report of version {report.version}, not {VERSION}")
    for result in report.results:
        _check(file, result)
    return report


def _check(file: Path, result: CaseResult) -> None:
    """Check that a case which was measured has its figures, and that each can be drawn.

    Raises:
        InvalidInput: one is missing, negative or not finite; or the ladder has no such rung.
    """
    figures = result.figures
    if not figures:
        return
    if result.group == LADDER and result.name not in _RUNGS:
        raise InvalidInput(f"--from {file}: {result.name!r} is not a rung of the ladder")
    needed = _RUNG_FIGURES if result.group == LADDER else ROUND_FIGURES.keys()
    for name in sorted(needed - figures.keys()):
        raise InvalidInput(f"--from {file}: {result.name!r} has no figure {name!r}")
    for name, value in figures.items():
        if not (math.isfinite(value) and value >= 0):
            raise InvalidInput(f"--from {file}: {result.name!r}: {name!r} is {value}")
