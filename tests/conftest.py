"""What every tier of tests shares."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from support import decimals, needs, tiers

pytest_plugins = ["ledger.testing.plugin"]

# The same few examples on every run, and no verdict that depends on the machine's speed. `.ci/run`
# takes more of them (`fixed`), and other ones: `--hypothesis-profile=drawn --hypothesis-seed=N`.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.register_profile("quick", _ANY_SPEED, derandomize=True, max_examples=10)
settings.register_profile("fixed", _ANY_SPEED, derandomize=True, max_examples=30)
settings.register_profile("drawn", _ANY_SPEED, max_examples=200)
settings.load_profile("quick")

decimals.be_strict_if_asked()

# What a shell without job control starts in the background ignores SIGINT, and so do its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the collector look at nothing that lives as long as the session.

    Thousands of tests and what they import are a million objects: to scan all of them again and
    again would take a tenth of all the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each of several workers begin with what takes long."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = tiers.long_first(items, tiers.takes_long, workers=workers)


GC_THRESHOLD = gc.get_threshold()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Undo `tune_gc` after each test: while it holds, each store that is opened scans the heap."""
    gc.set_threshold(*GC_THRESHOLD)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker tell of a test that passed in one message: the usual six cost a millisecond.

    `--durations` asks for all of them.
    """
    if not hasattr(item.config, "workerinput") or item.config.option.durations:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run tests on asyncio, as aiobotocore does."""
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose marks name an engine or a tool that is missing here."""
    for tier in ("engines", "tools"):
        for mark in item.iter_markers(tier):
            for name in mark.args:
                needs.check(name)
