"""Run the cases: each round in a process of its own, cases in turns, medians at the end."""

import os
import platform
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from lab.bench import node
from lab.bench.case_process import case_process, measured_by
from lab.bench.cases import Case
from lab.bench.control import StubControl, running_stub
from lab.bench.measurement import Measured
from lab.bench.options import BenchOptions
from lab.bench.report import BenchReport, CaseResult, figures_of, ratios_of
from lab.bench.rounds import Task
from lab.harness.processes import spare_cores
from ledger.core.errors import LedgerError
from ledger.demo.harness.display import OnStep
from ledger.runtime.loops import loop_name
from ledger.runtime.output import missing

_PACKAGES = ("aiobotocore", "aiodynamo", "aiohttp", "boto3", "httptools", "orjson", "uvloop")


@dataclass(frozen=True, slots=True)
class Bench:
    """What rounds need: the stub, and the core that their processes run on."""

    options: BenchOptions
    stub: StubControl
    core: int | None
    log: Path
    on_step: OnStep

    async def round(self, case: Case) -> Measured:
        """Measure one round of a case in a process of its own.

        Raises:
            LedgerError: it failed, or its sums differ from what was acknowledged.
        """
        seconds = self.options.seconds
        task = Task(case.run, seconds, case.options, self.stub.url)
        self.log.write_bytes(b"")
        core = self.core if case.has_stub else None
        process = case_process(case.name, task, log=self.log, core=core)
        async with process.started():
            with anyio.move_on_after(seconds + case.seconds_max):
                return await measured_by(process, process.lines())
        raise LedgerError(f"case {case.name!r} did not end in {seconds + case.seconds_max:,.0f} s")


async def run_bench(
    cases: Sequence[Case],
    options: BenchOptions,
    on_step: OnStep,
    keep: Callable[[BenchReport], None] = lambda _: None,
) -> BenchReport:
    """Measure the cases on one core, against a stub on another.

    `keep` is given what is measured so far after each round: the ladder takes an hour.

    Raises:
        LedgerError: the stub did not start.
    """
    machine = describe_machine()  # before its load average is our own
    client_core, stub_core = spare_cores() if options.pin else (None, None)
    with TemporaryDirectory(prefix="ledger-bench-") as folder:
        async with running_stub(core=stub_core) as stub:
            bench = Bench(options, stub, client_core, Path(folder) / "round.log", on_step)
            report = BenchReport(machine, options, ())
            async for results in run_cases(bench, cases):
                report = replace(report, results=results)
                keep(report)
            return report


async def run_cases(bench: Bench, cases: Sequence[Case]) -> AsyncGenerator[tuple[CaseResult, ...]]:
    """Measure the cases round by round, so that other load on the machine falls on all of them.

    After each round the results of the cases so far are yielded, in the end of all. A case that
    fails is left out of later rounds.
    """
    rounds: dict[str, list[Measured]] = {case.name: [] for case in cases}
    skipped = {case.name: reason for case in cases if (reason := _missing(case)) is not None}
    failed: dict[str, str] = {}
    for number in range(1, bench.options.rounds + 1):
        for case in cases:
            if case.name in skipped or case.name in failed or (case.is_long and number > 1):
                continue
            bench.on_step(f"round {number} of {bench.options.rounds}: {case.name}")
            try:
                rounds[case.name].append(await bench.round(case))
            except LedgerError as error:
                failed[case.name] = str(error)
            yield _results(cases, rounds, skipped, failed)
    yield _results(cases, rounds, skipped, failed)


def _results(
    cases: Sequence[Case],
    rounds: Mapping[str, Sequence[Measured]],
    skipped: Mapping[str, str],
    failed: Mapping[str, str],
) -> tuple[CaseResult, ...]:
    whole = {name: tuple(found) for name, found in rounds.items() if found and name not in failed}
    known = {*whole, *failed, *skipped}
    so_far = [case for case in cases if case.name in known]
    return results_of(so_far, whole, skipped=skipped, failed=failed)


def results_of(
    cases: Iterable[Case],
    rounds: Mapping[str, tuple[Measured, ...]],
    *,
    skipped: Mapping[str, str],
    failed: Mapping[str, str],
) -> tuple[CaseResult, ...]:
    """Set each case beside its baseline."""
    figures = {name: figures_of(found) for name, found in rounds.items()}

    def result(case: Case) -> CaseResult:
        ours, its = figures.get(case.name, {}), figures.get(case.baseline or "", {})
        ratios = ratios_of(ours, its) if ours and its else {}
        return CaseResult(
            case.name,
            case.group,
            case.baseline,
            figures={**ours, **ratios},
            rounds=rounds.get(case.name, ()),
            skipped=skipped.get(case.name),
            failed=failed.get(case.name),
        )

    return tuple(map(result, cases))


def describe_machine() -> dict[str, object]:
    """Return what the figures are measured on."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "loop": loop_name(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _missing(case: Case) -> str | None:
    """Return why a case cannot run here, if it cannot."""
    if case.package is None:
        return None
    if case.package.startswith("@"):
        return node.missing(case.package)
    if find_spec(case.package) is not None:
        return None
    return str(missing(case.package, f"the case {case.name}"))
