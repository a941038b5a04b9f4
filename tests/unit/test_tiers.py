"""The order of tests among several workers."""

import pytest
from support.tiers import long_first


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 30])
@pytest.mark.parametrize("long", [set[int](), {3, 17, 18}, set(range(9)), set(range(20))])
def test_each_worker_begins_with_its_share_of_the_long_ones(workers: int, long: set[int]) -> None:
    """Each test runs once, the short ones in their order; the first of each part is a long one."""
    tests = list(range(20))
    ordered = long_first(tests, long.__contains__, workers=workers)
    assert sorted(ordered) == tests
    assert [one for one in ordered if one not in long] == sorted({*tests} - long)
    begins, parts = 0, []
    for worker in range(workers):
        ends = begins + (len(tests) - begins) // (workers - worker)
        parts.append(ordered[begins:ends])
        begins = ends
    if workers * len(long) <= len(tests):
        firsts = [part[0] for part in parts[: len(long)]]
        assert {*firsts} <= long
        assert len(firsts) == min(workers, len(long))
