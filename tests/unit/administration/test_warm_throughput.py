import pytest

from ledger.administration.warm_throughput import WarmThroughput
from ledger.core.errors import InvalidInput


def test_writes_alone_or_with_reads() -> None:
    """Both forms are read; reads that are not given are not asked for."""
    assert WarmThroughput.parse("40000").request == {"WriteUnitsPerSecond": 40_000}
    assert WarmThroughput.parse("40000,12000").request == {
        "ReadUnitsPerSecond": 12_000,
        "WriteUnitsPerSecond": 40_000,
    }


@pytest.mark.parametrize("text", ["", "many", "1e5", "5000,", "5000,12000,1", "-5000", "5_000"])
def test_another_form_is_refused(text: str) -> None:
    """The message shows the value and the form."""
    with pytest.raises(InvalidInput, match=r"must be WRITES or WRITES,READS"):
        WarmThroughput.parse(text)


@pytest.mark.parametrize("text", ["3999", "4000,11999"])
def test_less_than_every_new_table_serves_is_refused(text: str) -> None:
    """It could not be lowered to that."""
    with pytest.raises(InvalidInput, match="which every new table serves"):
        WarmThroughput.parse(text)


@pytest.mark.parametrize(
    ("shown", "met"),
    [
        (None, False),
        (WarmThroughput(40_000, 20_000), True),
        (WarmThroughput(39_999, 20_000), False),
        (WarmThroughput(40_000, 19_999), False),
        (WarmThroughput(40_000), False),
    ],
)
def test_met_by_a_table_that_serves_both(shown: WarmThroughput | None, met: bool) -> None:  # noqa: FBT001
    """Writes and reads count each."""
    assert WarmThroughput(40_000, 20_000).is_met_by(shown) is met
