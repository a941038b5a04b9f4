import pytest
from lab.compare.arrivals import arrive
from lab.compare.figures import ARRIVING_SECONDS, LEDGER_COMBINED, Backlog, SdkRetried
from lab.compare.options import CompareOptions
from lab.compare.sdk_retries import retried_by_sdk
from lab.harness.model import open_model
from proof.simulator import loop

OPTIONS = CompareOptions(engine="model")
PER_SECOND = 150
BEYOND_A_PARTITION = 1_200


def backlog(method: str, per_second: int = PER_SECOND) -> Backlog:
    """Return what waits of so many changes a second."""

    async def run() -> Backlog:
        async with open_model(OPTIONS.regions, OPTIONS.seed) as model:
            return await arrive(model, method, per_second, OPTIONS)

    return loop.run(run)


@pytest.mark.slow
def test_the_backlog_of_optimistic_writers_grows_without_end() -> None:
    """More changes arrive than one item lets through: those that wait double with the time."""
    its = backlog("optimistic")
    assert its.waiting > 1.6 * its.waiting_half_way > 0
    through = its.useful_per_second * ARRIVING_SECONDS
    assert through + its.waiting == pytest.approx(PER_SECOND * ARRIVING_SECONDS, rel=0.1)


@pytest.mark.slow
def test_the_ledger_has_no_backlog() -> None:
    """With the same arrivals all are through but the few in flight."""
    its = backlog("collection")
    assert max(its.waiting, its.waiting_half_way) < 20
    assert its.useful_per_second == pytest.approx(PER_SECOND, rel=0.1)


@pytest.mark.slow
def test_changes_that_share_items_pass_what_a_partition_takes() -> None:
    """Over a thousand a second are through if they share items; with an item each they wait."""
    combined, alone = [
        backlog(method, BEYOND_A_PARTITION) for method in (LEDGER_COMBINED, "collection")
    ]
    assert max(combined.waiting, combined.waiting_half_way) < 100
    assert alone.waiting > 1.6 * alone.waiting_half_way > 1_000


@pytest.mark.parametrize(
    ("method", "answered", "kept", "reported"),
    [
        ("atomic", "applied", 2, "applied"),
        ("atomic-once", "applied", 2, "applied"),
        ("optimistic", "condition failed", 1, "applied"),
        ("slots", "condition failed", 1, "applied before"),
        ("client-token", "applied", 1, "applied"),
        ("marker", "applied", 1, "applied"),
        ("collection", "condition failed", 1, "applied"),
    ],
)
def test_what_the_retries_of_the_sdk_do(
    method: str, answered: str, kept: int, reported: str
) -> None:
    """`ADD` counts twice; a condition fails though the change was applied; a token is seen."""

    async def run() -> SdkRetried:
        async with open_model(OPTIONS.regions, OPTIONS.seed) as model:
            return await retried_by_sdk(model, method, OPTIONS)

    its = loop.run(run)
    assert (its.answered, its.kept, its.reported) == (answered, kept, reported)


def test_without_them_only_what_may_count_twice_does() -> None:
    """As the library runs: `atomic-once` says that it does not know, and has counted once."""

    async def run() -> dict[str, tuple[int, str]]:
        async with open_model(OPTIONS.regions, OPTIONS.seed) as model:
            names = ("atomic", "atomic-once", "optimistic", "marker", "slots", "collection")
            found = [await retried_by_sdk(model, name, OPTIONS) for name in names]
            return {
                retried.method: (retried.kept_without, retried.reported_without)
                for retried in found
            }

    its = loop.run(run)
    assert its.pop("atomic") == (2, "applied")
    assert its.pop("atomic-once") == (1, "unknown")
    assert set(its.values()) == {(1, "applied")}
