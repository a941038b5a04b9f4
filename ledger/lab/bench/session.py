"""One run of `ledger bench`: measure, show, write down, draw."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from ledger.core.errors import InvalidInput, LedgerError
from ledger.lab.bench import display, picture, report, runner
from ledger.lab.bench.cases import GROUPS, chosen
from ledger.lab.bench.curves import measure_curves
from ledger.lab.bench.overload import measure_overload


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured beside the cases, and where it goes."""

    cases: Sequence[str] | None
    curves: bool
    full: bool
    overload_minutes: float | None
    json_file: Path | None
    picture: Path | None


def run(options: Options, sizes: runner.Sizes, console: Console) -> None:
    """Measure everything asked for.

    Raises:
        InvalidInput: nothing fits what was asked for.
        LedgerError: a case failed, or its sums are wrong.
    """
    if options.picture is not None:
        picture.check(options.picture)
    asked = chosen(options.cases)
    minutes = options.overload_minutes
    if not (asked or options.curves or minutes is not None):
        raise InvalidInput(
            f"no case fits {', '.join(options.cases or ())!r}; groups are {', '.join(GROUPS)}"
        )
    machine = runner.machine()  # the load that others make is what it was before
    with console.status("") as status:
        tell = status.update
        found = report.Report(
            machine=machine,
            options={**asdict(sizes), "cases": options.cases},
            results=runner.run_cases(asked, sizes, tell=tell) if asked else (),
            curves=measure_curves(sizes, is_full=options.full, tell=tell) if options.curves else (),
            overload=None if minutes is None else measure_overload(sizes, minutes, tell=tell),
        )
    display.show(found, console)
    if options.json_file is not None:
        report.write(found, options.json_file)
    if options.picture is not None:
        picture.draw(found, options.picture)
    failed = [result.name for result in found.results if result.failed]
    failed += [curve.name for curve in found.curves if curve.failed]
    if failed:
        raise LedgerError(f"not everything could be measured: {', '.join(failed)}")
