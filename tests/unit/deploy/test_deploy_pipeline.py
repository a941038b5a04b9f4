"""The pipeline's template: what exactness rests on is set, and nothing that would undermine it."""

import re
from pathlib import Path
from typing import Any

import pytest

from ledger.administration.templates import pipeline_template
from ledger.administration.templates.pipeline_function import RETENTION_HOURS_MIN
from ledger.administration.templates.template_text import Intrinsic
from ledger.settings import Settings
from ledger.settings.pipelines import BATCH_RECORDS_MAX

ROOT = Path(__file__).parents[3]
TEMPLATE = pipeline_template(
    Settings(home="us-east-1", regions={"us-east-1": {}, "eu-west-1": {}}, table="money")
)
RESOURCES = TEMPLATE["Resources"]
MAPPINGS = {
    name: one["Properties"]
    for name, one in RESOURCES.items()
    if one["Type"] == "AWS::Lambda::EventSourceMapping"
}
TABLE_STREAM_SECONDS = 24 * 3_600
"""How long DynamoDB Streams keep a record."""


@pytest.mark.parametrize("name", ["RecordsMapping", "SourceTableMapping"])
def test_a_shard_has_one_batch_at_a_time_and_leaves_nothing_out(name: str) -> None:
    """One batch a shard, from its beginning, unfiltered, retried without limit, failures named."""
    mapping = MAPPINGS[name]
    assert mapping["ParallelizationFactor"] == 1
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["MaximumRetryAttempts"] == -1
    assert mapping["BisectBatchOnFunctionError"] is True
    assert "FilterCriteria" not in mapping


def test_what_is_given_up_can_still_be_read() -> None:
    """Lambda tells which records it gives up, hours before their stream forgets them."""
    assert len(MAPPINGS) == 2
    for mapping in MAPPINGS.values():
        destination = mapping["DestinationConfig"]["OnFailure"]["Destination"]
        assert destination == Intrinsic("!GetAtt", "Discarded.Arn")
    age = MAPPINGS["RecordsMapping"]["MaximumRecordAgeInSeconds"]
    assert RETENTION_HOURS_MIN * 3_600 - age >= 86_400
    assert RESOURCES["Records"]["Properties"]["RetentionPeriodHours"] == Intrinsic(
        "!Ref", "RetentionHours"
    )
    retention = TEMPLATE["Parameters"]["RetentionHours"]
    assert retention["MinValue"] == retention["Default"] == RETENTION_HOURS_MIN
    age = MAPPINGS["SourceTableMapping"]["MaximumRecordAgeInSeconds"]
    assert TABLE_STREAM_SECONDS - age >= 3_600


def test_only_the_tables_mapping_has_a_window() -> None:
    """Without one DynamoDB Streams do not tell the shard; Kinesis tells it anyway."""
    assert "TumblingWindowInSeconds" not in MAPPINGS["RecordsMapping"]
    assert MAPPINGS["SourceTableMapping"]["TumblingWindowInSeconds"] > 0


def test_a_source_table_is_optional_whole() -> None:
    """Mapping and permission come and go together, the permission first."""
    both = RESOURCES["SourceTableMapping"], RESOURCES["SourceTablePolicy"]
    assert {one["Condition"] for one in both} == {"HasSourceTable"}
    assert both[0]["DependsOn"] == "SourceTablePolicy"


def test_what_would_be_missed_outlives_the_stack() -> None:
    """Records and what became of them stay when the stack is deleted or a resource replaced."""
    for name in ("Records", "DeadLetters", "Discarded"):
        assert RESOURCES[name]["DeletionPolicy"] == "Retain"
        assert RESOURCES[name]["UpdateReplacePolicy"] == "Retain"


def test_the_stream_has_no_name_of_its_own() -> None:
    """A name used before would meet the positions of the old stream's lanes."""
    assert "Name" not in RESOURCES["Records"]["Properties"]


def test_the_function_knows_its_queue_and_waits_for_nothing() -> None:
    """The settings that only the stack knows are set, by names that the settings know."""
    variables = RESOURCES["Function"]["Properties"]["Environment"]["Variables"]
    assert variables["LEDGER_PIPELINE__DEAD_LETTER_QUEUE"] == Intrinsic("!Ref", "DeadLetters")
    names = [
        name.removeprefix("LEDGER_PIPELINE__").lower()
        for name in set(variables) - {"LEDGER_CONFIG", "LEDGER_CHOSEN_PIPELINE"}
    ]
    assert set(names) <= set(type(Settings.model_fields["pipeline"].default).model_fields)
    assert TEMPLATE["Parameters"]["BatchRecords"]["MaxValue"] == BATCH_RECORDS_MAX


def test_the_stack_chooses_pipeline_and_settings() -> None:
    """By parameters; without a name the function goes by `pipeline`, or the only one."""
    variables = RESOURCES["Function"]["Properties"]["Environment"]["Variables"]
    name, config = (TEMPLATE["Parameters"][each] for each in ("PipelineName", "ConfigFile"))
    assert variables["LEDGER_CONFIG"] == Intrinsic("!Ref", "ConfigFile")
    chosen = variables["LEDGER_CHOSEN_PIPELINE"]
    given, no_value = Intrinsic("!Ref", "PipelineName"), Intrinsic("!Ref", "AWS::NoValue")
    assert chosen == Intrinsic("!If", ("HasPipelineName", given, no_value))
    assert name["Default"] == ""
    accepted = re.compile(name["AllowedPattern"])
    assert all(map(accepted.fullmatch, ("", "fx", "desk-7")))
    assert not any(map(accepted.fullmatch, ("FX", "-a", "a~b", "a" * 33)))
    dockerfile = (ROOT / "deploy/container/Dockerfile").read_text(encoding="utf-8")
    assert f"LEDGER_CONFIG={config['Default']}\n" in dockerfile


def test_the_role_reads_one_stream_and_writes_two_queues() -> None:
    """Beside the table and its own log the function may do nothing else."""
    own = statements("own")
    assert own.pop("SeeMappings") == {
        "Sid": "SeeMappings",
        "Effect": "Allow",
        "Action": ["lambda:ListEventSourceMappings"],
        "Resource": "*",
    }
    assert {name: one["Resource"].value for name, one in own.items()} == {
        "WriteLog": "LogGroup.Arn",
        "ReadRecords": "Records.Arn",
        "KeepDeadLetters": "DeadLetters.Arn",
        "TellWhatIsGivenUp": "Discarded.Arn",
    }
    assert all(
        action.startswith("dynamodb:")
        for statement in statements("pipeline").values()
        for action in statement["Action"]
    )


def statements(policy: str) -> dict[str, Any]:
    """Return the statements of one of the role's policies by name."""
    policies = RESOURCES["FunctionRole"]["Properties"]["Policies"]
    (found,) = [one["PolicyDocument"] for one in policies if one["PolicyName"] == policy]
    return {one["Sid"]: one for one in found["Statement"]}


def test_each_way_to_fall_behind_has_an_alarm() -> None:
    """Failing, throttled, behind, dead letters, given up: each is told."""
    watched = {
        (resource["Properties"]["Namespace"], resource["Properties"]["MetricName"])
        for resource in RESOURCES.values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }
    assert watched == {
        ("AWS/Lambda", "Errors"),
        ("AWS/Lambda", "Throttles"),
        ("AWS/Lambda", "IteratorAge"),
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
    }
    queues = [
        resource["Properties"]["Dimensions"][0]["Value"].value
        for resource in RESOURCES.values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
        and resource["Properties"]["Namespace"] == "AWS/SQS"
    ]
    assert sorted(queues) == ["DeadLetters.QueueName", "Discarded.QueueName"]
