"""`ledger pipeline run kinesis://` and `kafka://` as a user runs them, killed and run again.

moto plays Kinesis. Its shards went on delivering after a split, so resharding is in the unit tests.
Kafka's broker is the one that librdkafka tests its clients with.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from signal import SIGTERM
from typing import Any

import anyio
import boto3
import pytest
from support.commands import Desk, command_line, open_desk
from support.killing import Running, running
from support.ledgers import HOME
from support.worlds import open_ledgers, totals

from ledger.settings import Settings

pytestmark = pytest.mark.slow

PIPELINE = {
    "fields": {"id": "id", "version": "version", "value": "value"},
    "categories": ["kind/{kind}"],
    "batch_max": 20,
    "reduce_every": 0,
}
WAIT_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Run a table for all tests here, each with a category of its own."""
    folder = tmp_path_factory.mktemp("desk")
    with open_desk(folder, regions=[HOME]) as opened:
        opened.write_settings(opened.settings(pipeline=PIPELINE))
        yield opened


def records(kind: str, first: int, last: int) -> list[bytes]:
    """Return records, each of value 1."""
    return [
        json.dumps({"id": f"{kind}{number}", "version": 1, "value": 1, "kind": kind}).encode()
        for number in range(first, last)
    ]


async def until(process: Running, settings: Settings, kind: str, wanted: int) -> None:
    """Wait until the total shows so many records."""
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while await counted(settings, kind) != wanted:
            assert process.process.poll() is None, process.said()


async def counted(settings: Settings, kind: str) -> Decimal:
    """Return how many records the total shows."""
    async with open_ledgers(settings) as ledgers:
        shown: Mapping[str, Decimal] = await totals(ledgers, f"kind/{kind}")
    return shown[HOME]


@pytest.mark.engines("moto_server")
@pytest.mark.long
async def test_a_kinesis_stream_is_brought_in_by_its_shards(desk: Desk) -> None:
    """Killed and run again it goes on behind what is in; what cannot be taken is a dead letter."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (an engine)

    server, settings = ThreadedMotoServer(port=0, verbose=False), desk.settings()
    server.start()
    try:
        _, port = server.get_host_and_port()
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        place = f"http://127.0.0.1:{port}"
        kinesis = boto3.client("kinesis", region_name=HOME, endpoint_url=place, **keys)  # type: ignore[call-overload]
        kinesis.create_stream(StreamName="trades", ShardCount=2)
        words = command_line("ledger", "pipeline", "run", "kinesis://trades")
        with_keys = {name.upper(): value for name, value in keys.items()}
        variables = {"AWS_ENDPOINT_URL_KINESIS": place, **with_keys}
        put(kinesis, records("kinesis", 0, 60))
        async with _started(words, desk, variables) as process:
            await until(process, settings, "kinesis", 60)
            await process.kill()
        put(kinesis, [*records("kinesis", 60, 100), b"no record"])
        async with _started(words, desk, variables) as process:
            await until(process, settings, "kinesis", 100)
            await process.says("trades/shardId-000000000001 begins here")
            process.process.send_signal(SIGTERM)
            assert await process.ends() == 0, process.said()
            assert " 41 records in; 0 duplicate; 0 stale; 1 dead" in process.said()
        words = command_line("ledger", "pipeline", "status", "kinesis://trades")
        async with _started(words, desk, variables) as process:
            assert await process.ends() == 0, process.said()
            assert process.said().count("0.0 s") == 2
    finally:
        server.stop()
    (letter,) = (desk.folder / "trades.dead").read_text().splitlines()
    assert json.loads(letter)["record"] == "no record"


def put(kinesis: Any, raws: Sequence[bytes]) -> None:
    """Put records into all shards."""
    for number, raw in enumerate(raws):
        kinesis.put_record(StreamName="trades", PartitionKey=f"p{number}", Data=raw)


@pytest.mark.engines("moto_server")
async def test_a_queue_is_drained_into_a_file(desk: Desk) -> None:
    """All of its messages count, and it is empty."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (an engine)

    server, settings = ThreadedMotoServer(port=0, verbose=False), desk.settings()
    server.start()
    try:
        _, port = server.get_host_and_port()
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        place = f"http://127.0.0.1:{port}"
        sqs = boto3.client("sqs", region_name=HOME, endpoint_url=place, **keys)  # type: ignore[call-overload]
        url = sqs.create_queue(QueueName="queue")["QueueUrl"]
        for raw in records("queue", 0, 25):
            sqs.send_message(QueueUrl=url, MessageBody=raw.decode())
        words = command_line("ledger", "pipeline", "run", "sqs://queue", "--spool", "queue.jsonl")
        with_keys = {name.upper(): value for name, value in keys.items()}
        async with _started(words, desk, {"AWS_ENDPOINT_URL_SQS": place, **with_keys}) as process:
            assert await process.ends() == 0, process.said()
        assert await counted(settings, "queue") == 25
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
    finally:
        server.stop()


TRADES = {
    "fields": {"id": "TradeID", "version": "Version", "value": "Value", "time": "Timestamp"},
    "categories": ["risk/{Hierarchy.RiskType}"],
}


@pytest.mark.engines("moto_server")
@pytest.mark.parametrize("scheme", ["kinesis", "sqs"])
async def test_what_is_produced_ends_exact(desk: Desk, scheme: str) -> None:
    """A stream or queue is written at a rate and brought in: the totals are the producer's."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (an engine)

    name = f"produced-{scheme}"
    settings = desk.settings(pipelines={name: TRADES})
    desk.write_settings(desk.settings(pipeline=PIPELINE, pipelines={name: TRADES}))
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        place = f"http://127.0.0.1:{port}"
        client = boto3.client(scheme, region_name=HOME, endpoint_url=place, **keys)  # type: ignore[call-overload]
        if scheme == "kinesis":
            client.create_stream(StreamName=name, ShardCount=1)
        else:
            client.create_queue(QueueName=name)
        with_keys = {each.upper(): value for each, value in keys.items()}
        variables = {f"AWS_ENDPOINT_URL_{scheme.upper()}": place, **with_keys}
        target, totals_file = f"{scheme}://{name}", f"{name}.json"
        options = ("--count", "300", "--rate", "1000", "--totals", totals_file)
        words = command_line("lab", "produce", target, "--pipeline", name, *options)
        async with _started(words, desk, variables) as process:
            assert await process.ends() == 0, process.said()
            assert "300 records written" in process.said()
        expected = json.loads((desk.folder / totals_file).read_text(encoding="utf-8"))
        spool = ("--spool", f"{name}.jsonl") if scheme == "sqs" else ()
        words = command_line("ledger", "pipeline", "run", target, "--pipeline", name, *spool)
        async with _started(words, desk, variables) as process:
            with anyio.fail_after(WAIT_SECONDS_MAX):
                async with open_ledgers(settings) as ledgers:
                    for risk in ("Delta", "Gamma", "Rho", "Vega"):
                        wanted = Decimal(expected[f"risk/{risk}"])
                        while (await totals(ledgers, f"risk/{risk}"))[HOME] != wanted:
                            assert not process.process.poll(), process.said()
            if scheme == "kinesis":
                process.process.send_signal(SIGTERM)
            assert await process.ends() == 0, process.said()
    finally:
        server.stop()


@pytest.mark.tools("kafka")
async def test_a_producer_writes_a_topic(desk: Desk) -> None:
    """A file's records, to all partitions by their ids, until a signal ends what never ends."""
    from support.kafka_broker import kafka_broker  # noqa: PLC0415 (its library is a tool)

    with kafka_broker("written", partitions=3) as broker:
        target = f"kafka://{broker.address}/written"
        (desk.folder / "given.jsonl").write_bytes(b"\n".join(records("written", 0, 50)))
        words = command_line("lab", "produce", target, "--file", "given.jsonl")
        async with _started(words, desk, {}) as process:
            assert await process.ends() == 0, process.said()
            assert "50 records written" in process.said()
        words = command_line("lab", "produce", target, "--count", "0", "--rate", "50")
        async with _started(words, desk, {}) as process:
            await process.says(" records written, ")
            process.process.send_signal(SIGTERM)
            assert await process.ends() == 0, process.said()
        words = command_line("ledger", "pipeline", "run", target)
        async with _started(words, desk, {}) as process:
            await until(process, desk.settings(), "written", 50)


@pytest.mark.tools("kafka")
@pytest.mark.long
async def test_a_topic_is_brought_in_by_its_partitions(desk: Desk) -> None:
    """Killed and run again it goes on behind what is in."""
    from support.kafka_broker import kafka_broker  # noqa: PLC0415 (its library is a tool)

    settings = desk.settings()
    with kafka_broker("orders", partitions=3) as broker:
        words = command_line("ledger", "pipeline", "run", f"kafka://{broker.address}/orders")
        for number in range(3):
            broker.send("orders", number, records("kafka", 20 * number, 20 * number + 20))
        async with _started(words, desk, {}) as process:
            await until(process, settings, "kafka", 60)
            await process.kill()
        broker.send("orders", 1, [*records("kafka", 60, 100), None])
        async with _started(words, desk, {}) as process:
            await until(process, settings, "kafka", 100)
            await process.says("orders/2 begins here")
            process.process.send_signal(SIGTERM)
            assert await process.ends() == 0, process.said()
            assert " 41 records in; 0 duplicate; 0 stale; 1 dead" in process.said()
        broker.send("orders", 2, records("kafka", 200, 203))
        address = f"kafka://{broker.address}/orders"
        async with _started(
            command_line("ledger", "pipeline", "status", address), desk, {}
        ) as seen:
            assert await seen.ends() == 0, seen.said()
            assert seen.said().count("0 records") == 2
            assert "3 records" in seen.said()


def _started(words: Sequence[str], desk: Desk, variables: Mapping[str, str]) -> Any:
    assignments = [f"{name}={value}" for name, value in variables.items()]
    return running(["env", *assignments, *words], desk.folder, "stream.log")
