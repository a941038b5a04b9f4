"""What a producer sends, at which rate, and what it does with what is refused."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from lab.pipeline_demo.producer import steady_sender
from lab.pipeline_demo.producer.produce_command import (
    generated,
    lines_of,
    options_of,
    write_totals,
)
from lab.pipeline_demo.producer.steady_sender import AT_ONCE, TRIES_MAX, Producer
from lab.pipeline_demo.producer.targets import (
    FileTarget,
    Outgoing,
    QueueTarget,
    StreamTarget,
    Target,
    TopicTarget,
    open_target,
)
from lab.pipeline_demo.traffic import Traffic
from support.ledgers import make_settings
from support.pipelines import FIELDS, message

from ledger.core.amounts import total_wide
from ledger.core.errors import InvalidInput, LedgerError
from ledger.testing.clock import ManualClock

RECORDS = [Outgoing(f"T{number}", b'{"n": %d}\n' % number) for number in range(100)]
HOME = "us-east-1"


@dataclass
class Taking:
    """A target that refuses what it is told to, and keeps the rest."""

    refuses: Callable[[int], bool] = lambda _call: False
    records_max: int = 7
    bytes_max: int = 1_000
    calls: int = 0
    taken: list[Outgoing] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
        """Take every other record where this call is to refuse, and all otherwise."""
        self.calls += 1
        self.sizes.append(len(records))
        refused = range(0, len(records), 2) if self.refuses(self.calls) else ()
        self.taken += [one for place, one in enumerate(records) if place not in refused]
        return refused


def producer(target: Target, *, rate: float = 0, clock: ManualClock | None = None) -> Producer:
    """Return a producer of the records, on a clock whose sleeps are over at once."""
    return Producer(
        target=target,
        records=iter(RECORDS),
        rate=rate,
        clock=clock or ManualClock(instant=True),
        randomness=Random(7),  # noqa: S311
    )


async def test_what_is_refused_is_sent_again() -> None:
    """Each record is taken once, however often some of a batch were refused; that is counted."""
    target = Taking(refuses=lambda call: call % 3 == 0)
    made = producer(target)
    await made.run()
    assert sorted(target.taken) == sorted(RECORDS)
    assert made.sent.records == len(RECORDS)
    assert made.sent.refused > 10
    assert max(target.sizes) == target.records_max


async def test_a_batch_is_bounded_in_bytes() -> None:
    """By records and bytes; a record beyond the bound goes alone."""
    target = Taking(bytes_max=2 * RECORDS[50].size)
    await producer(target).run()
    assert set(target.sizes) == {2}
    target = Taking(bytes_max=1)
    await producer(target).run()
    assert set(target.sizes) == {1}
    assert target.taken == RECORDS


async def test_the_rate_is_held_by_the_clock() -> None:
    """No record is sent before it is due, and the time is that of the rate."""
    clock = ManualClock(instant=True)
    target = Taking()
    made = producer(target, rate=20, clock=clock)
    await made.run()
    assert len(RECORDS) / 20 <= made.sent.seconds < len(RECORDS) / 20 + 0.1
    assert abs(made.sent.per_second - 20) < 1


async def test_a_stop_leaves_nothing_begun() -> None:
    """What was begun is sent to its last record, refused or not, and no more."""
    target = Taking(refuses=lambda call: call == 1, records_max=5)
    made = producer(target)
    send = target.send

    async def stopping(records: Sequence[Outgoing]) -> Sequence[int]:
        made.stop()
        return await send(records)

    target.send = stopping  # type: ignore[method-assign]
    await made.run()
    assert sorted(target.taken) == sorted(RECORDS[: 5 * AT_ONCE])
    assert made.sent.refused == 3


async def test_a_target_that_takes_nothing_is_an_error() -> None:
    """After minutes, not for ever."""
    clock = ManualClock(instant=True)

    class Full(Taking):
        async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
            return range(len(records))

    made = producer(Full(), clock=clock)
    with pytest.raises(LedgerError, match=f"in {TRIES_MAX} tries"):
        await made.run()
    assert 60 < clock.monotonic() < TRIES_MAX * steady_sender.AGAIN_SECONDS_MAX


class Client:
    """A client that answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: Mapping[str, Any] | Exception) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self._answer = answer

    async def _call(self, **request: Any) -> Mapping[str, Any]:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    put_records = send_message_batch = _call


def error(code: str) -> ClientError:
    """Return an error of an AWS service."""
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Send")


async def test_a_stream_says_which_records_it_refuses() -> None:
    """By an error code of each, or by an error of the whole request; others are errors."""
    answer = {"FailedRecordCount": 1, "Records": [{}, {"ErrorCode": "InternalFailure"}, {}]}
    client = Client(answer)
    assert list(await StreamTarget(client, "trades").send(RECORDS[:3])) == [1]
    assert client.asked[0]["Records"][0] == {"PartitionKey": "T0", "Data": b'{"n": 0}'}
    slow = Client(error("ProvisionedThroughputExceededException"))
    assert list(await StreamTarget(slow, "trades").send(RECORDS[:3])) == [0, 1, 2]
    for failure in (error("AccessDeniedException"), EndpointConnectionError(endpoint_url="x")):
        with pytest.raises(LedgerError, match="trades: "):
            await StreamTarget(Client(failure), "trades").send(RECORDS[:3])


async def test_a_queue_says_which_messages_it_refuses() -> None:
    """Those that are its own fault are sent again; a message that it does not take is an error."""
    client = Client({"Failed": [{"Id": "2", "SenderFault": False, "Code": "InternalError"}]})
    assert list(await QueueTarget(client, "queue").send(RECORDS[:3])) == [2]
    assert client.asked[0]["Entries"][1] == {"Id": "1", "MessageBody": '{"n": 1}'}
    assert list(await QueueTarget(Client({}), "queue").send(RECORDS[:3])) == []
    assert len(await QueueTarget(Client(error("RequestThrottled")), "q").send(RECORDS[:3])) == 3
    blamed = Client({"Failed": [{"Id": "0", "SenderFault": True, "Message": "has signs"}]})
    with pytest.raises(LedgerError, match="takes no such message: has signs"):
        await QueueTarget(blamed, "queue").send(RECORDS[:3])


async def test_a_topic_gets_keys_and_values() -> None:
    """A partition has all versions of a record, which its key names."""
    written: list[tuple[bytes, bytes]] = []

    class Writer:
        async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
            written.extend(records)

    assert await TopicTarget(Writer()).send(RECORDS[:2]) == ()
    assert written == [(b"T0", b'{"n": 0}'), (b"T1", b'{"n": 1}')]


async def test_a_file_grows_by_lines(tmp_path: Path) -> None:
    """Each record is a line, whether it ends with a line break or not."""
    file = tmp_path / "records.jsonl"
    for records in ([Outgoing("a", b"1")], [Outgoing("b", b"2\n"), Outgoing("c", b"3")]):
        await FileTarget(file).send(records)
    assert file.read_bytes() == b"1\n2\n3\n"
    with pytest.raises(LedgerError, match="cannot be written: Is a directory"):
        await FileTarget(tmp_path).send(RECORDS)


@pytest.mark.parametrize("address", ["kinesis://a/b", "ftp://a", "kafka://host", "kinesis://"])
async def test_an_address_of_nothing_is_refused(address: str) -> None:
    """The message says which there are."""
    with pytest.raises(InvalidInput, match="neither a file nor kinesis://STREAM"):
        async with open_target(address, make_settings(), HOME):
            pass


def test_generated_records_are_the_demos_by_their_trades(tmp_path: Path) -> None:
    """The seed decides all but their time; the totals are those of what was taken, not more."""
    clock = ManualClock()

    def sent(many: int) -> tuple[list[Outgoing], Traffic]:
        traffic = Traffic(options_of(500, 7), Random(7))  # noqa: S311
        found: Iterator[Outgoing] = generated(traffic, clock)
        return [next(found) for _ in range(many)], traffic

    whole, _ = sent(500)
    part, traffic = sent(100)
    assert whole[:100] == part
    assert all(outgoing.key in outgoing.line.decode() for outgoing in whole)
    write_totals(tmp_path / "totals.json", traffic)
    found = json.loads((tmp_path / "totals.json").read_text(encoding="utf-8"))
    newest: dict[str, Any] = {}
    for line in (outgoing.line for outgoing in part):
        try:
            told = json.loads(line, parse_float=Decimal)
        except ValueError:
            continue
        known = newest.get(told["TradeID"], {"Version": 0})
        if isinstance(told.get("Value"), Decimal) and told["Version"] > known["Version"]:
            newest[told["TradeID"]] = told
    assert total_wide(
        Decimal(found[f"risk/{risk}"]) for risk in ("Delta", "Gamma", "Rho", "Vega")
    ) == total_wide(told["Value"] for told in newest.values())


def test_lines_of_a_file_go_by_their_records_ids(tmp_path: Path) -> None:
    """Those that are no record go by their numbers; empty ones are left out."""
    file = tmp_path / "records.jsonl"
    lines = [message("T1", 1, 5), b"", b"no record", message("T1", 2, 6)]
    file.write_bytes(b"\n".join(lines))
    settings = make_settings(pipeline={"fields": FIELDS, "categories": ["all"]})
    found = list(lines_of(file, settings, 0))
    assert [outgoing.key for outgoing in found] == ["T1", "2", "T1"]
    assert [outgoing.line.rstrip(b"\n") for outgoing in found] == [lines[0], lines[2], lines[3]]
    assert [outgoing.key for outgoing in lines_of(file, make_settings(), 1)] == ["0"]
