"""Running the cases: each round in a process of its own, cases in turns, medians at the end."""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from pydantic import TypeAdapter

from ledger.core.errors import LedgerError, LocalTableError
from ledger.lab.bench.cases import Case
from ledger.lab.bench.control import StubControl, running_stub
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.processes import cores, start
from ledger.lab.bench.report import STUB_SHARE_MAX, Figures, Result, figures_of
from ledger.lab.bench.rounds import Task
from ledger.local.engines.dynoxide import find_binary
from ledger.runtime.loops import loop_name

ROUND_SECONDS_MAX = 1_200.0
"""Beside the time measured: to start, to warm up, to wait for what is under way."""
_PACKAGES = ("aiobotocore", "aiodynamo", "aiohttp", "boto3", "httptools", "orjson", "uvloop")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long and how often each case is measured."""

    seconds: float = 3.0
    rounds: int = 3
    is_quick: bool = False
    pin: bool = True


QUICK = {"callers": 200, "calls_per_second": 2_000, "entries": 1_000, "counters": 100, "rounds": 1}
"""The largest options of a quick run."""


def run_cases(cases: Sequence[Case], sizes: Sizes, *, tell: Tell) -> tuple[Result, ...]:
    """Measure each case round by round, so that whatever else the machine does falls on all.

    A case that fails is left out of later rounds, and its result tells why.
    """
    client, stub_core = cores() if sizes.pin else (None, None)
    rounds: dict[str, list[Measured]] = {case.name: [] for case in cases}
    skipped = {case.name: reason for case in cases if (reason := _missing(case)) is not None}
    failed: dict[str, str] = {}
    with running_stub(core=stub_core) as stub:
        for number in range(sizes.rounds):
            for case in cases:
                if case.name in skipped or case.name in failed:
                    continue
                tell(f"round {number + 1} of {sizes.rounds}: {case.name}")
                try:
                    rounds[case.name].append(run_round(case, sizes, stub, core=client))
                except LedgerError as error:
                    failed[case.name] = str(error)
    whole = {name: tuple(found) for name, found in rounds.items() if name not in failed}
    return results_of(cases, whole, skipped=skipped, failed=failed)


def run_round(case: Case, sizes: Sizes, stub: StubControl, *, core: int | None) -> Measured:
    """Measure one round of a case in a process of its own.

    Raises:
        LedgerError: it failed, or its sums differ from what was acknowledged.
    """
    options = dict(case.options)
    if sizes.is_quick:
        options |= {name: min(QUICK[name], options[name]) for name in QUICK.keys() & options}
        options |= case.quick
    url = stub.url if case.with_stub else None
    task = Task(case.run, sizes.seconds, options, url, case.loop)
    text = TypeAdapter(Task).dump_json(task).decode()
    process = start(
        "ledger.lab.bench.child", text, core=core if case.with_stub else None, catch_errors=True
    )
    try:
        output, errors = process.communicate(timeout=sizes.seconds + ROUND_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise LedgerError(f"case {case.name!r} does not end") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        last = (errors.strip() or f"status {process.returncode}").splitlines()[-1]
        raise LedgerError(f"case {case.name!r} failed: {last}")
    return TypeAdapter(Measured).validate_python(json.loads(output.splitlines()[-1]))


def results_of(
    cases: Iterable[Case],
    rounds: Mapping[str, tuple[Measured, ...]],
    *,
    skipped: Mapping[str, str],
    failed: Mapping[str, str],
) -> tuple[Result, ...]:
    """Set each case beside its baseline and beside what the stub was shown to answer."""
    figures = {name: figures_of(found) for name, found in rounds.items() if found}
    return tuple(
        replace(
            _result(case, figures, rounds),
            skipped=skipped.get(case.name),
            failed=failed.get(case.name),
        )
        for case in cases
    )


def _result(
    case: Case, figures: Mapping[str, Figures], rounds: Mapping[str, tuple[Measured, ...]]
) -> Result:
    result = Result(case.name, case.group, case.baseline, stands_for_many=case.stands_for_many)
    ours = figures.get(case.name)
    if ours is None:
        return result
    result = replace(result, figures=ours, rounds=rounds[case.name])
    if (its := figures.get(case.baseline or "")) is not None:
        result = replace(
            result,
            times_baseline=ours.work_per_second / its.work_per_second,
            times_baseline_cpu=ours.work_per_cpu_second / its.work_per_cpu_second,
        )
    if (limit := figures.get(case.limit or "")) is not None and ours.requests_per_second:
        times = limit.requests_per_second / ours.requests_per_second
        result = replace(result, stub_limit_times=times)
    # What a proof shows is the stub at its limit.
    is_busy = case.group != "proof" and ours.stub_share > STUB_SHARE_MAX
    return replace(result, is_trustworthy=not is_busy)


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
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


def _why_no_dynoxide() -> str | None:
    try:
        find_binary()
    except LocalTableError as error:
        return str(error)
    return None


def _missing(case: Case) -> str | None:
    """Return why a case cannot run here."""
    if case.package == "dynoxide":
        return _why_no_dynoxide()
    if case.package is not None and find_spec(case.package) is None:
        return f"{case.package} is not installed: pip install 'multi-region-ledger[bench]'"
    if case.loop == "uvloop" and find_spec("uvloop") is None:
        return "uvloop is not installed"
    return None
