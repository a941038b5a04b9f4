import pytest
from lab.pipeline_demo.faults import Crashed, StageFaults, StageFaultStore
from lab.pipeline_demo.options import FAIL
from support.ledgers import HOME, seeded

from ledger.core.errors import Unreachable
from ledger.pipeline.core.items import position_key, state_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, lane_state_of
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import Fault, FaultCall, Late, Lost, NeverArrived, Raises
from ledger.store.writes import Applied, Put, Unknown

LANE = "here/lane"


class OneFault(StageFaults):
    """The first call meets a fault, the others none."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__(0, seeded(), crashes=True)
        self.fault = fault

    def __call__(self, call: FaultCall) -> Fault | None:
        """Return what there is, once."""
        super().__call__(call)
        fault, self.fault = self.fault, None
        return fault


def failing(
    stage: str, fault: Fault
) -> tuple[StageFaultStore, MemoryStore, dict[str, StageFaults]]:
    """Return a store whose first request of one stage fails."""
    faults: dict[str, StageFaults] = {
        name: OneFault(fault if name == stage else None) for name in FAIL
    }
    store = MemoryStore(HOME)
    return StageFaultStore(store, faults), store, faults


def moved(position: str) -> Put:
    """Return a commit that changes nothing but the lane's position."""
    return Put(lane_item(LANE, LaneState(position=position)))


async def test_each_stage_meets_its_own_faults() -> None:
    """States, commits and reduces are told apart by what they write; the rest is left alone."""
    store, _, faults = failing("map", NeverArrived())
    partition, sort_key = state_key("T1")
    state = Put({"pk": {"S": partition}, "sk": {"S": sort_key}})
    entry = Put({"pk": {"S": "risk/Delta"}, "sk": {"S": "1"}})
    assert await store.write(state) == Applied()
    assert await store.get(Get(state_key("T1"))) is not None
    assert isinstance(await store.transact([moved("1"), entry]), Unknown)
    assert await store.transact([moved("1"), entry]) == Applied()
    assert await store.transact([entry, moved("2")]) == Applied()
    assert await store.write(moved("3")) == Applied()
    assert await store.write(entry) == Applied()
    assert await store.get(Get(position_key(LANE))) is not None
    assert {name: one.requests for name, one in faults.items()} == {
        "state": 2,
        "map": 3,
        "reduce": 1,
    }


@pytest.mark.parametrize(
    ("fault", "before", "after"),
    [
        (Raises(Crashed("before")), "", "2"),
        (Raises(Crashed("after"), applied=True), "1", "2"),
        (Late(Crashed("meanwhile")), "", "1"),
    ],
)
async def test_a_crash_comes_before_after_or_meanwhile(
    fault: Fault, before: str, after: str
) -> None:
    """What was in flight lands after the next request of the stage."""
    store, inner, _ = failing("map", fault)
    with pytest.raises(Crashed):
        await store.write(moved("1"))
    assert lane_state_of(await inner.get(Get(position_key(LANE)))).position == before
    assert await store.write(moved("2")) == Applied()
    assert lane_state_of(await inner.get(Get(position_key(LANE)))).position == after


async def test_a_read_that_goes_wrong_has_no_answer() -> None:
    """A state that is to be read may not be reached."""
    store, _, _ = failing("state", Lost())
    with pytest.raises(Unreachable):
        await store.get(Get(state_key("T1")))


def test_of_all_requests_the_share_goes_wrong_in_every_way() -> None:
    """States are never torn by a crash of their own; map and reduce meet all six faults."""
    kinds = {}
    for crashes in (False, True):
        faults = StageFaults(0.2, seeded(), crashes=crashes)
        drawn = [faults(FaultCall(number, "transact")) for number in range(2000)]
        kinds[crashes] = {repr(one) for one in drawn if one is not None}
        assert abs(faults.failed / faults.requests - 0.2) < 0.05
        assert faults.requests == 2000
    assert (len(kinds[False]), len(kinds[True])) == (3, 6)


@pytest.mark.parametrize("seed", range(20))
def test_a_short_run_meets_its_share_of_failures(seed: int) -> None:
    """Of every 50 requests one fails, whatever the seed: 42 of 2,100, and one of the first 50."""
    faults = StageFaults(0.02, seeded(seed), crashes=True)
    for number in range(2_100):
        faults(FaultCall(number, "transact"))
        if number == 49:
            assert faults.failed == 1
    assert faults.failed == 42


def test_without_a_share_nothing_fails() -> None:
    """A run without failures."""
    faults = StageFaults(0.0, seeded(), crashes=True)
    assert not any(faults(FaultCall(number, "transact")) for number in range(100))
