import json
import tracemalloc
from collections import Counter
from decimal import Decimal
from random import Random

import pytest
from lab.pipeline_demo.options import PipelineDemoOptions
from lab.pipeline_demo.traffic import WINDOW, Message, Shares, Traffic
from support.ledgers import make_settings

from ledger.core.amounts import EXACT
from ledger.pipeline.core.records import Poison, Record, RecordForm

OPTIONS = PipelineDemoOptions(messages=6_000, lanes=2)
SHARES = Shares(malformed=0.01)
TRADES = 600


def messages(options: PipelineDemoOptions = OPTIONS, seed: int = 7) -> list[Message]:
    """Return all messages of a run."""
    return list(a_traffic(options, seed).messages())


def a_traffic(options: PipelineDemoOptions = OPTIONS, seed: int = 7) -> Traffic:
    """Return the traffic of a run."""
    return Traffic(options, Random(seed), shares=SHARES)  # noqa: S311 (repeatable)


def test_the_seed_decides_every_message() -> None:
    """The same seed gives the same messages, another one others; as many as asked for."""
    assert messages() == messages() != messages(seed=8)
    assert len(messages()) == OPTIONS.messages


def test_messages_are_duplicate_delayed_malformed_and_from_elsewhere() -> None:
    """Each share shows; every version comes, and none later than the window allows."""
    found = messages()
    sound = [message for message in found if message.version]
    assert abs(len(found) - len(sound) - 60) < 40
    times = Counter((message.trade, message.version) for message in sound)
    assert abs(sum(times.values()) - len(times) - 300) < 100
    first: dict[tuple[int, int], int] = {}
    for place, one in enumerate(sound):
        first.setdefault((one.trade, one.version), place)
    late = sum(
        place > first.get((trade, version + 1), place) for (trade, version), place in first.items()
    )
    assert late > 50
    for trade in range(TRADES):
        versions = sorted(version for (one, version) in times if one == trade)
        assert versions == list(range(1, len(versions) + 1))
    crossing = sum(
        message.lane // OPTIONS.lanes != message.trade % OPTIONS.regions for message in sound
    )
    assert abs(crossing / len(sound) - SHARES.crossing) < 0.03
    assert {message.lane for message in sound} == {0, 1, 2, 3}


def test_the_expected_totals_are_what_the_pipeline_reads_in_the_messages() -> None:
    """Summed up from the records as the pipeline reads them: the same totals and malformed ones."""
    form = RecordForm(
        make_settings(
            home="us-east-1",
            regions={"us-east-1": {}, "eu-west-1": {}},
            pipeline=OPTIONS.pipeline(),
        )
    )
    traffic, newest, malformed = a_traffic(), dict[str, Record](), 0
    for message in traffic.messages():
        record = form.read(message.line)
        if isinstance(record, Poison):
            malformed += 1
            continue
        assert record.home == OPTIONS.names[message.trade % OPTIONS.regions]
        if record.id not in newest or record.version > newest[record.id].version:
            newest[record.id] = record
    sums: dict[str, Decimal] = {}
    for record in newest.values():
        for category in record.categories:
            sums[category] = EXACT.add(sums.get(category, 0), record.value)
    assert {name: value for name, value in traffic.expected().items() if value} == {
        name: value for name, value in sums.items() if value
    }
    assert traffic.malformed == malformed > 0


def test_without_faults_each_version_comes_once_and_in_order() -> None:
    """Shares of nothing give nothing of the kind."""
    options = PipelineDemoOptions(messages=2 * WINDOW, regions=1)
    none = Shares(duplicate=0, delayed=0, malformed=0)
    traffic = Traffic(options, Random(7), shares=none)  # noqa: S311 (repeatable)
    newest = Counter[int]()
    for message in traffic.messages():
        newest[message.trade] += 1
        assert message.version == newest[message.trade]
        assert message.lane == 0
        assert json.loads(message.line)["Version"] == message.version


@pytest.mark.slow
def test_the_expected_totals_take_memory_by_trades_and_not_by_messages() -> None:
    """Ten times the messages of the same trades keep nothing more."""
    sizes = []
    for count in (10_000, 100_000):
        tracemalloc.start()
        traffic = a_traffic(PipelineDemoOptions(messages=count, trades_max=500))
        for _ in traffic.messages():
            pass
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert sizes[1] < 1.2 * sizes[0]
