import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.needs import program
from typer.testing import CliRunner

from ledger.administration.table_plan import KEYS, STREAM_VIEW
from ledger.administration.templates import (
    Role,
    archive_template,
    compactor_template,
    pipeline_template,
    replication_template,
    table_template,
)
from ledger.administration.templates.table import Extras
from ledger.administration.templates.template_text import Intrinsic
from ledger.commands.deploy import app
from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.local.front import dispatch
from ledger.settings import Settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
TEMPLATES = ("table", "compactor", "pipeline", "service", "iam", "archive", "replication")

Run = Callable[..., str]


def settings_of(*regions: str, **more: Any) -> Settings:
    """Give settings with these regions, the first of them home."""
    return Settings(home=regions[0], regions={name: {} for name in regions}, **more)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Give the text that `ledger deploy` writes."""
    monkeypatch.delenv("LEDGER_CONFIG", raising=False)

    def write(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return write


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_shipped_templates_are_the_ones_generated_now(run: Run, name: str) -> None:
    """A template in deploy/ is what the command writes for the shipped regions.yaml."""
    shipped = (DEPLOY / "cloudformation" / f"{name}.yaml").read_text(encoding="utf-8")
    assert run("template", name, "--config", str(ROOT / "regions.yaml")) == shipped


@pytest.mark.parametrize("role", list(Role))
def test_the_shipped_policies_are_the_ones_generated_now(run: Run, role: Role) -> None:
    """A policy in deploy/ is what the command writes for the shipped regions.yaml."""
    shipped = (DEPLOY / "iam" / f"{role}.json").read_text(encoding="utf-8")
    assert run("policy", role, "--config", str(ROOT / "regions.yaml")) == shipped


def test_no_other_file_lies_among_the_generated_ones() -> None:
    """A template or policy that is no longer generated does not stay behind."""
    assert {path.stem for path in (DEPLOY / "cloudformation").iterdir()} == set(TEMPLATES)
    assert {path.stem for path in (DEPLOY / "iam").iterdir()} == set(Role)


@pytest.mark.tools("cfn-lint")
@pytest.mark.parametrize("regions", [["eu-central-1"], ["us-east-1", "eu-west-1", "sa-east-1"]])
def test_cfn_lint_finds_nothing(run: Run, tmp_path: Path, regions: list[str]) -> None:
    """Every template is sound CloudFormation, with one region and with several."""
    config = tmp_path / "regions.yaml"
    lines = [
        f"home: {regions[0]}",
        "time_to_live: true",
        "marker_table: ledger-markers",
        "archive: [s3://kept-here/ledger, s3://kept-there]",
        "books: [book/*]",
        "budgets: {'key/*': {}}",
        "regions:",
        *(f"  {name}:" for name in regions),
    ]
    config.write_text("\n".join(lines), encoding="utf-8")
    paths = []
    for name in TEMPLATES if len(regions) > 1 else TEMPLATES[:-1]:
        path = tmp_path / f"{name}-template.yaml"
        run("template", name, "--config", str(config), "--output", str(path))
        paths.append(str(path))
    result = subprocess.run(
        [program("cfn-lint"), "--regions", regions[0], "--", *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_region_is_a_protected_replica() -> None:
    """The table has one replica per region, home first, restorable and not to be deleted."""
    settings = settings_of("eu-west-1", "us-east-1", "ap-south-1", table="money")
    table = table_template(settings)["Resources"]["Table"]
    assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"
    assert table["Properties"]["TableName"] == "money"
    replicas = table["Properties"]["Replicas"]
    assert [replica["Region"] for replica in replicas] == ["eu-west-1", "us-east-1", "ap-south-1"]
    for replica in replicas:
        assert replica["DeletionProtectionEnabled"] is True
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True


def test_the_template_makes_the_table_that_the_command_makes() -> None:
    """CloudFormation and `ledger table create` agree on keys and stream."""
    properties = table_template(settings_of("us-east-1"))["Resources"]["Table"]["Properties"]
    kinds = {
        each["AttributeName"]: each["AttributeType"] for each in properties["AttributeDefinitions"]
    }
    keys = tuple(
        (each["AttributeName"], each["KeyType"], kinds[each["AttributeName"]])
        for each in properties["KeySchema"]
    )
    assert keys == KEYS
    assert properties["StreamSpecification"]["StreamViewType"] == STREAM_VIEW
    assert properties["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}


def test_time_to_live_is_in_the_template_only_if_the_settings_want_it() -> None:
    """By default nothing expires; where it is wanted it goes by the reserved attribute alone."""
    plain, expiring = (
        table_template(settings_of("us-east-1", time_to_live=wanted))["Resources"]["Table"]
        for wanted in (False, True)
    )
    assert "TimeToLiveSpecification" not in plain["Properties"]
    specification = expiring["Properties"]["TimeToLiveSpecification"]
    assert specification == {"AttributeName": "~expires", "Enabled": True}


def test_markers_have_a_table_of_their_own_where_the_settings_name_one() -> None:
    """It is like the other in all but its name and the time to live, which it always has."""
    plain = settings_of("eu-west-1", "us-east-1", table="money")
    assert list(table_template(plain)["Resources"]) == ["Table"]
    both = table_template(plain.replace(marker_table="money-markers"))["Resources"]
    table, markers = both["Table"], both["MarkerTable"]
    assert markers["Properties"].pop("TimeToLiveSpecification")["AttributeName"] == "~expires"
    assert markers["Properties"].pop("TableName") == "money-markers"
    assert table["Properties"].pop("TableName") == "money"
    assert markers == table


def test_the_table_of_a_template_can_be_warm(run: Run) -> None:
    """`--warm` is in the table's template alone, and nothing is said without it."""
    config = str(ROOT / "regions.yaml")
    plain = table_template(settings_of("us-east-1"))["Resources"]["Table"]["Properties"]
    assert "WarmThroughput" not in plain
    written = run("template", "table", "--config", config, "--warm", "40000,20000")
    assert "      WarmThroughput:\n        ReadUnitsPerSecond: 20000\n" in written
    assert "        WriteUnitsPerSecond: 40000\n" in written
    result = CliRunner().invoke(app, ["template", "iam", "--config", config, "--warm", "40000"])
    assert "--tag are for the template table, got iam" in str(result.exception)


def test_a_table_has_keys_and_tags_of_the_company(run: Run) -> None:
    """Each replica its own key, and all the tags; cfn-lint takes it."""
    regions = ("us-east-1", "eu-west-1")
    arns = {region: f"arn:aws:kms:{region}:111122223333:key/1234abcd-12ab" for region in regions}
    settings = settings_of(*regions, marker_table="money-markers")
    extras = Extras.parse(settings, [f"{name}={arn}" for name, arn in arns.items()], ["team=a=b"])
    resources = table_template(settings, extras=extras)["Resources"]
    for table in ("Table", "MarkerTable"):
        for replica in resources[table]["Properties"]["Replicas"]:
            assert replica["SSESpecification"] == {"KMSMasterKeyId": arns[replica["Region"]]}
            assert replica["Tags"] == [{"Key": "team", "Value": "a=b"}]
    written = run("template", "table", "--config", str(ROOT / "regions.yaml"), "--tag", "team=a")
    assert written.count("Key: team") == 3
    assert "KMSMasterKeyId" not in written


KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab"


@pytest.mark.parametrize(
    ("keys", "tags", "said"),
    [
        ([f"us-east-1={KEY}"], [], "for every region or none: eu-west-1"),
        ([f"eu-west-1={KEY}", f"us-east-1={KEY}"], [], "a key of its own region"),
        (["us-east-1=abc"], [], "not the ARN of a key in us-east-1"),
        (["us-east-1"], [], "--kms-key must be NAME=VALUE, got 'us-east-1'"),
        ([], ["team"], "--tag must be NAME=VALUE, got 'team'"),
        ([], ["a=1", "a=2"], "--tag: a is given twice"),
        ([], [f"a{number}=1" for number in range(51)], "50 tags at most, got 51"),
    ],
)
def test_wrong_keys_and_tags_are_named(keys: list[str], tags: list[str], said: str) -> None:
    """Before anything is written."""
    with pytest.raises(InvalidInput, match=re.escape(said)):
        Extras.parse(settings_of("us-east-1", "eu-west-1"), keys, tags)


def test_every_ordered_pair_is_watched_for_lag_and_for_silence() -> None:
    """Each region's stack has the alarms of what it writes, to each other region."""
    settings = settings_of("us-east-1", "eu-west-1", "sa-east-1", table="money")
    template = replication_template(settings)
    names = {"InUsEast1": "us-east-1", "InEuWest1": "eu-west-1", "InSaEast1": "sa-east-1"}
    lags, missing = set(), {}
    for name, resource in template["Resources"].items():
        properties = resource["Properties"]
        if properties.get("MetricName") != "ReplicationLatency":
            continue
        table, receiving = (dimension["Value"] for dimension in properties["Dimensions"])
        assert table == "money"
        pair = (names[resource["Condition"]], receiving)
        if properties["Statistic"] == "Average":
            assert properties["Threshold"] == 180_000
            lags.add(pair)
        else:
            assert properties["TreatMissingData"] == "breaching"
            missing[name] = pair
    pairs = set(itertools.permutations(settings.regions, 2))
    assert lags == pairs
    assert set(missing.values()) == pairs
    silent = [
        resource
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::CompositeAlarm"
    ]
    assert len(silent) == len(pairs)
    for resource in silent:
        writing, part = resource["DependsOn"]
        assert names[resource["Condition"]] == missing[part][0]
        for each in (writing, part):
            named = template["Resources"][each]["Properties"]["AlarmName"].value
            assert f"ALARM({named})" in resource["Properties"]["AlarmRule"].value


def counted(alarm: dict[str, Any]) -> set[str]:
    """Give the operations whose metrics an alarm adds up."""
    stats = [each["MetricStat"] for each in alarm["Properties"]["Metrics"] if "MetricStat" in each]
    assert len(stats) <= 10  # of one alarm: CloudWatch User Guide, "Using metric math"
    named = [
        {dimension["Name"]: dimension["Value"] for dimension in each["Metric"]["Dimensions"]}
        for each in stats
    ]
    return {each["Operation"] for each in named}


def test_alarms_on_the_table_count_every_operation_that_the_ledger_sends() -> None:
    """Errors, throttling and writing are seen whichever request they come by."""
    settings = settings_of("us-east-1", "eu-west-1")
    home = compactor_template(settings)["Resources"]
    # After a failed BatchGetItem come GetItems, which count; the other no store sends.
    reads = dispatch.READS - {"BatchGetItem", "TransactGetItems"}
    # Of ten metrics there is none left for it, which strict writers alone send, beside others.
    writes = dispatch.WRITES - {"ExecuteTransaction"}
    for name in ("SystemErrorsAlarm", "TableThrottledAlarm"):
        assert counted(home[name]) == writes | reads
    assert counted(replication_template(settings)["Resources"]["Writing"]) == writes


def test_one_region_has_no_replication() -> None:
    """A template without an alarm is refused, since it would say that all is watched."""
    with pytest.raises(SettingsError, match="one region only"):
        replication_template(settings_of("us-east-1"))


def test_a_condition_names_each_region() -> None:
    """A stack makes the alarms of the region that it is deployed in, and no others."""
    conditions = replication_template(settings_of("us-east-1", "eu-west-1"))["Conditions"]
    assert conditions["InEuWest1"] == Intrinsic(
        "!Equals", (Intrinsic("!Ref", "AWS::Region"), "eu-west-1")
    )


@pytest.mark.parametrize("make", [compactor_template, pipeline_template, replication_template])
def test_every_alarm_tells_the_topic(make: Callable[[Settings], dict[str, Any]]) -> None:
    """No alarm is silent once a topic is given."""
    resources = make(settings_of("us-east-1", "eu-west-1"))["Resources"]
    composite = {name for resource in resources.values() for name in resource.get("DependsOn", ())}
    alarms = [
        each
        for name, each in resources.items()
        if each["Type"].startswith("AWS::CloudWatch::") and name not in composite
    ]
    assert len(alarms) >= 4
    for alarm in alarms:
        [action] = alarm["Properties"]["AlarmActions"]
        assert isinstance(action, Intrinsic)
        assert action.value[1] == Intrinsic("!Ref", "AlarmTopicArn")


def test_the_archive_s_bucket_keeps_what_is_put_there() -> None:
    """It outlives its stack, keeps versions, is not public, encrypted, and asked by TLS alone."""
    resources = archive_template(settings_of("us-east-1"))["Resources"]
    bucket = resources["Bucket"]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    properties = bucket["Properties"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert "BucketEncryption" in properties
    rules = properties["LifecycleConfiguration"]["Rules"]
    assert [{*rule} - {"Id", "Status"} for rule in rules] == [{"NoncurrentVersionExpiration"}]
    (statement,) = resources["BucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_passes_are_neither_limited_nor_repeated_by_lambda() -> None:
    """The lease makes two instances safe, and the next minute is the retry of a failed pass."""
    resources = compactor_template(settings_of("us-east-1"))["Resources"]
    assert "ReservedConcurrentExecutions" not in resources["Function"]["Properties"]
    assert resources["Invocation"]["Properties"]["MaximumRetryAttempts"] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--account", "12345"), "'12345'"),
        (("--account", "١٢٣٤٥٦٧٨٩٠١٢"), "12 digits"),
        (("--region", "mars-north-1"), "'mars-north-1'"),
        (("--output", "no/such/folder/policy.json"), "no/such/folder"),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments: tuple[str, ...], named: str) -> None:
    """A wrong account, region or file is named in the error, and nothing is written."""
    config = str(ROOT / "regions.yaml")
    result = CliRunner().invoke(app, ["policy", "writer", "--config", config, *arguments])
    assert isinstance(result.exception, LedgerError)
    assert named in str(result.exception)
    assert not result.stdout


def test_what_the_stacks_keep_is_taken_down_as_documented() -> None:
    """Each stack of the page is deleted there, and each resource that outlives its stack."""
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    before, _, down = page.partition("## 7. Taking it down")
    stacks = set(re.findall(r"aws cloudformation deploy .*--stack-name (\S+)", before))
    assert len(stacks) == len(TEMPLATES)
    for stack in stacks:
        assert re.search(rf"delete-stack .*--stack-name {stack}\b", down), stack
    settings = settings_of("us-east-1", "eu-west-1", marker_table="ledger-markers")
    commands = {
        "AWS::Kinesis::Stream": "aws kinesis delete-stream",
        "AWS::SQS::Queue": "aws sqs delete-queue",
        "AWS::DynamoDB::GlobalTable": "ledger table delete",
        "AWS::S3::Bucket": "aws s3api delete-bucket",
    }
    for make in (
        table_template,
        compactor_template,
        pipeline_template,
        replication_template,
        archive_template,
    ):
        template = make(settings)
        outputs = {
            one["Value"].value: key
            for key, one in template.get("Outputs", {}).items()
            if make is pipeline_template
        }
        for name, resource in template["Resources"].items():
            if resource.get("DeletionPolicy") == "Retain":
                of_stack = f'"$(value {outputs[name]})"' if name in outputs else ""
                command = commands[resource["Type"]]
                assert re.search(f"{command} .*{re.escape(of_stack)}", down), name
