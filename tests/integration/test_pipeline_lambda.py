"""The pipeline's Lambda function on what its template deploys, as far as moto goes.

moto holds the stack, the Kinesis stream, the source table with its stream, and the queue; totals
are in the local global table. Lambda itself is played: events are made of what the streams give,
handed in more than once and divided differently each time.
"""

import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio.to_thread
import boto3
import pytest
from support.ledgers import AWAY, HOME
from support.pipelines import BOTH_HOMES, CATEGORIES, FIELDS, POISON, message, truth
from support.stream_events import event_of, kinesis_record
from support.worlds import open_ledgers, totals

from ledger.administration.templates import as_yaml, pipeline_template
from ledger.core.errors import SettingsError
from ledger.local import LocalGlobalTable
from ledger.pipeline.aws import aws_lambda
from ledger.pipeline.aws.stream_events import DELETED
from ledger.pipeline.sources.dead_letters import letter_of
from ledger.settings import Settings

pytestmark = [
    pytest.mark.engines("moto_server"),
    pytest.mark.filterwarnings("ignore:Tried to parse AWS..CloudWatch"),
]
Event = dict[str, Any]
RAWS = [
    message(f"{'ET'[number % 2]}{number % 7}", 1 + number // 7, 3 * number, desk="AB"[number % 2])
    for number in range(35)
]
IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/ledger:0.1.0"


@dataclass
class LambdaContext:
    """What Lambda hands in."""

    function_name: str = "pipeline"

    def get_remaining_time_in_millis(self) -> int:
        """Give a minute."""
        return 60_000


@dataclass(frozen=True)
class Cloud:
    """moto's AWS, and the stack that it made of the template."""

    endpoint: str
    outputs: dict[str, str]
    variables: dict[str, str]
    source: str
    name: str

    def client(self, service: str) -> Any:
        """Return a client of one of moto's services."""
        return client(self.endpoint, service)


def client(endpoint: str, service: str) -> Any:
    """Return a boto3 client that knows its endpoint and has credentials."""
    return boto3.client(  # type: ignore[call-overload]
        service,
        region_name=HOME,
        endpoint_url=endpoint,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


@contextmanager
def deployed(settings: Settings) -> Iterator[Cloud]:
    """Deploy the pipeline's template to moto, with a source table beside it."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (not in the extra `test`)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        source = client(endpoint, "dynamodb").create_table(
            TableName="records",
            KeySchema=[{"AttributeName": "TradeID", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "TradeID", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )["TableDescription"]["LatestStreamArn"]
        stacks = client(endpoint, "cloudformation")
        given = {"ImageUri": IMAGE, "SourceStreamArn": source}
        stacks.create_stack(
            StackName="pipeline",
            TemplateBody=as_yaml(pipeline_template(settings), comment=()),
            Parameters=[
                {"ParameterKey": name, "ParameterValue": value} for name, value in given.items()
            ],
            Capabilities=["CAPABILITY_IAM"],
        )
        (stack,) = stacks.describe_stacks(StackName="pipeline")["Stacks"]
        outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
        (function,) = client(endpoint, "lambda").list_functions()["Functions"]
        variables = function["Environment"]["Variables"]
        yield Cloud(endpoint, outputs, variables, source, function["FunctionName"])
    finally:
        server.stop()


@asynccontextmanager
async def function(
    settings: Settings, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Let the handler run as it would in the function that the stack made."""
    config = tmp_path / "regions.yaml"
    config.write_text(settings.model_dump_json(exclude_none=True), encoding="utf-8")
    given = {
        "LEDGER_CONFIG": str(config),
        "AWS_LAMBDA_FUNCTION_NAME": cloud.name,
        "AWS_ENDPOINT_URL_SQS": cloud.endpoint,
        "AWS_ENDPOINT_URL_LAMBDA": cloud.endpoint,
        "AWS_ENDPOINT_URL_KINESIS": cloud.endpoint,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
    }
    for name, value in {**cloud.variables, **given}.items():
        monkeypatch.setenv(name, value)
    aws_lambda.environment.cache_clear()
    try:
        yield
    finally:
        await cold_start()


async def cold_start() -> None:
    """End the environment; the next invocation begins another."""
    if aws_lambda.environment.cache_info().currsize:
        await anyio.to_thread.run_sync(aws_lambda.environment().close)
    aws_lambda.environment.cache_clear()


async def invoke(event: Event) -> Event:
    """Invoke the function, in a thread of its own, with what JSON makes of an event."""
    sent = json.loads(json.dumps(event))
    context = LambdaContext(os.environ["AWS_LAMBDA_FUNCTION_NAME"])
    answer = await anyio.to_thread.run_sync(aws_lambda.handler, sent, context)
    told: Event = json.loads(json.dumps(answer))
    return told


async def deliver(records: Sequence[Event], size: int, **window: object) -> None:
    """Hand in a shard's records, cut into so many."""
    for start in range(0, len(records), size):
        answer = await invoke({**event_of(records[start : start + size]), **window})
        assert answer["batchItemFailures"] == []
        assert ("state" in answer) == bool(window)


def stream_records(cloud: Cloud) -> dict[str, list[Event]]:
    """Return the records of each shard of the Kinesis stream, as Lambda hands them over."""
    kinesis = cloud.client("kinesis")
    name = cloud.outputs["StreamName"]
    described = kinesis.describe_stream(StreamName=name)["StreamDescription"]
    found = {}
    for shard in (one["ShardId"] for one in described["Shards"]):
        place = kinesis.get_shard_iterator(
            StreamName=name, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )
        records = kinesis.get_records(ShardIterator=place["ShardIterator"])["Records"]
        found[shard] = [
            kinesis_record(
                record["Data"], record["SequenceNumber"], stream=described["StreamARN"], shard=shard
            )
            for record in records
        ]
    return found


def table_records(cloud: Cloud) -> tuple[str, list[Event]]:
    """Return the shard of the table's stream, and its records, as Lambda hands them over."""
    streams = cloud.client("dynamodbstreams")
    described = streams.describe_stream(StreamArn=cloud.source)["StreamDescription"]
    (shard,) = (one["ShardId"] for one in described["Shards"])
    place = streams.get_shard_iterator(
        StreamArn=cloud.source, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )
    records = streams.get_records(ShardIterator=place["ShardIterator"])["Records"]
    for record in records:
        record["dynamodb"]["ApproximateCreationDateTime"] = 1763707801.0
        record["eventSourceARN"] = cloud.source
    return shard, records


def letters(cloud: Cloud) -> dict[str, bytes]:
    """Return the records of the dead letters by the beginning of their reasons."""
    url = cloud.outputs["DeadLettersUrl"]
    found = {}
    for _ in range(20):
        answer = cloud.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        if not (messages := answer.get("Messages")):
            break
        for one in messages:
            letter = letter_of(one["Body"])
            found[letter.reason] = letter.raw
    return found


async def test_what_the_template_deploys_counts_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of a stream and a table, duplicated, divided at random, end as expected.

    What cannot be taken lies in the queue; a record too long for a message with its beginning.
    """
    long = b'{"TradeID": "' + b"x" * 300_000 + b'"}'
    async with LocalGlobalTable.start(regions=[HOME, AWAY], lag=0.01, seed=7) as world:
        pipeline = {"fields": FIELDS, "categories": CATEGORIES, "home": BOTH_HOMES, "batch_max": 4}
        settings = world.settings(pipeline=pipeline)
        # moto would run the function in Docker for each record.
        monkeypatch.setattr("moto.awslambda.models.LambdaFunction.invoke", lambda *_: b"")
        with deployed(settings) as cloud:
            cloud.client("kinesis").put_records(
                StreamName=cloud.outputs["StreamName"],
                Records=[
                    {"Data": raw, "PartitionKey": str(number)}
                    for number, raw in enumerate([*RAWS, *RAWS[::3], POISON, long])
                ],
            )
            records = cloud.client("dynamodb")
            item: Event = {"TradeID": {"S": "S1"}, "Value": {"N": "0.50"}}
            place = {"RiskType": {"S": "Delta"}, "Region": {"S": "EMEA"}, "Desk": {"S": "A"}}
            for version in ("1", "2"):
                item = {**item, "Version": {"N": version}, "Hierarchy": {"M": place}}
                records.put_item(TableName="records", Item=item)
            records.delete_item(TableName="records", Key={"TradeID": {"S": "S1"}})

            async with function(settings, cloud, tmp_path, monkeypatch):
                for size in (9, 5):
                    for records in stream_records(cloud).values():
                        await deliver(records, size)
                    shard, changes = table_records(cloud)
                    await deliver(changes, size // 3, shardId=shard, window={}, state={})
                    await cold_start()
                lambda_ = cloud.client("lambda")
                (mapping,) = lambda_.list_event_source_mappings(
                    EventSourceArn=records[0]["eventSourceARN"]
                )["EventSourceMappings"]
                lambda_.update_event_source_mapping(
                    UUID=mapping["UUID"], FunctionResponseTypes=[], ParallelizationFactor=2
                )
                with pytest.raises(SettingsError, match="does not report what must come again"):
                    await deliver(records, 9)
                await cold_start()
            await world.wait_replicated()

            expected = truth(RAWS)
            for counter in ("risk/Delta", "desk/EMEA/A"):
                expected[counter] = expected.get(counter, Decimal(0)) + Decimal("0.50")
            async with open_ledgers(settings) as ledgers:
                for counter, value in expected.items():
                    assert await totals(ledgers, counter) == {HOME: value, AWAY: value}, counter
            kept = letters(cloud)
            assert set(kept.values()) >= {POISON, long[:32_768]}
            assert DELETED in kept
            assert any("all of them are in the stream" in reason for reason in kept)
