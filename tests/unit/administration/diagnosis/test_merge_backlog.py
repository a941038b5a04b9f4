"""What a sample of the table shows of entries that are due to be merged."""

from collections.abc import Sequence
from datetime import timedelta

from support.ledgers import HOME, net

from ledger import Region, Settings
from ledger.administration.diagnosis import region_findings
from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis
from ledger.administration.diagnosis.hot_collection import HotSample
from ledger.administration.diagnosis.merge_backlog import SampledKeys, Unmerged
from ledger.core.entry import Item, entry_id
from ledger.core.ids import EntryId
from ledger.testing.clock import START

SETTINGS = Settings(
    regions={HOME: Region()}, settle="20m", compactor={"fold_min": 3, "fold_age": "1d"}
)
NOW = START


def made(count: int, *, minutes: float) -> Sequence[EntryId]:
    """Return ids of this age."""
    at = NOW - timedelta(minutes=minutes)
    return [entry_id(at, suffix) for suffix in range(count)]


def entries(counter: str, made_at: Sequence[EntryId]) -> list[Item]:
    """Return items of entries, as a scan of keys does."""
    return [{"pk": {"S": counter}, "sk": {"S": str(one)}} for one in made_at]


def unmerged(items: Sequence[Item]) -> Unmerged:
    """Return what a sample of these items shows."""
    sample = SampledKeys()
    sample.add(items)
    return sample.unmerged(SETTINGS, now=NOW)


def test_settled_entries_that_are_worth_a_fold_are_counted() -> None:
    """They are due since the last of the least that a fold takes has settled."""
    found = unmerged(entries("late", made(5, minutes=80)))
    assert found == Unmerged(1, 1, 5, NOW - timedelta(minutes=60))


def test_what_waits_by_design_is_not_counted() -> None:
    """Young entries, fewer than a fold takes, those of a net, and what is no collection."""
    merged = made(5, minutes=80)
    found = unmerged(
        [
            *entries("young", made(5, minutes=10)),
            *entries("few", made(2, minutes=80)),
            *entries("merged", merged),
            net("merged", 5, merged),
            *entries("~hint-0", made(5, minutes=80)),
        ]
    )
    assert found == Unmerged(3)


def test_a_few_entries_are_due_once_they_are_old() -> None:
    """As for the compactor, from `fold_age` on."""
    found = unmerged(entries("old", made(1, minutes=25 * 60)))
    assert found.since == NOW - timedelta(hours=1)


def test_a_collection_that_was_read_in_part_says_nothing() -> None:
    """The net that names its entries comes last."""
    sample = SampledKeys()
    sample.add(entries("cut", made(5, minutes=80)))
    sample.leave_out("cut")
    assert sample.unmerged(SETTINGS, now=NOW) == Unmerged()


def judged(found: Unmerged) -> list[Diagnosis]:
    """Return the doctor's lines."""
    return [*region_findings.unmerged_findings(HotSample([], 1, "", found), region=HOME, now=NOW)]


def test_the_doctor_says_how_many_wait_and_since_when() -> None:
    """It warns once they have waited for longer than the alarm allows."""
    [late] = judged(Unmerged(9, 2, 1_234, NOW - timedelta(minutes=62)))
    assert late.state is CheckState.WARNING
    assert "9 collections" in late.what
    assert "2 have 1,234 settled entries" in late.what
    assert (NOW - timedelta(minutes=62)).isoformat()[:16] in late.what
    assert "--search" in late.do
    [soon] = judged(Unmerged(9, 2, 1_234, NOW - timedelta(minutes=2)))
    assert (soon.state, "1,234" in soon.what) == (CheckState.OK, True)


def test_the_doctor_says_that_nothing_waits() -> None:
    """Of what it has sampled; without a page of the table it says nothing."""
    [none] = judged(Unmerged(9))
    assert (none.state, "none" in none.what) == (CheckState.OK, True)
    assert judged(Unmerged()) == []
