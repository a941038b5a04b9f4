import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.fake_aws import (
    REGIONS,
    SETTINGS,
    FakeAws,
    finished,
    plain_table,
    refused,
)

from ledger.administration.table import (
    Clients,
    TableProgress,
    create_table,
    delete_table,
    table_state,
)
from ledger.administration.table_plan import StepKind, TableStep
from ledger.administration.warm_throughput import WarmThroughput
from ledger.core.errors import (
    AccessDenied,
    LedgerError,
    RequestRefused,
    SettingsError,
    Unreachable,
)
from ledger.settings import Settings
from ledger.settings.groups import Region


def test_the_table_is_made_whole() -> None:
    """The table comes first, then replicas one at a time, then each region's own protections."""
    aws = FakeAws()
    state = aws.run()
    assert finished(aws)
    assert state.left == ()
    kinds = [kind for kind, _ in itertools.groupby(step.kind for step in state.taken)]
    assert kinds == [StepKind.CREATE, StepKind.REPLICA, StepKind.RECOVERY, StepKind.PROTECT]
    recovered = [step.region for step in state.taken if step.kind is StepKind.RECOVERY]
    assert recovered == list(REGIONS)


def test_a_second_run_changes_nothing() -> None:
    """When all is there, no request that changes anything is sent."""
    aws = FakeAws()
    aws.run()
    sent = len(aws.requests)
    assert aws.run().taken == ()
    assert len(aws.requests) == sent


EXPIRING = SETTINGS.replace(time_to_live=True)


def test_time_to_live_is_off_until_it_is_asked_for() -> None:
    """It is turned on once, for the whole table, by the attribute that only markers have."""
    aws = FakeAws()
    aws.run()
    assert aws.tables["eu-west-1"].get("expires") is None
    assert aws.run(settings=EXPIRING).taken == (TableStep(StepKind.EXPIRY, "us-east-1"),)
    assert {table["expires"] for table in aws.tables.values()} == {"~expires"}
    assert aws.run(settings=EXPIRING).taken == ()


def test_time_to_live_once_on_is_left_on() -> None:
    """Settings that do not ask for it do not turn it off: markers of others may rest on it."""
    aws = FakeAws()
    aws.run(settings=EXPIRING)
    assert aws.run().taken == ()
    assert aws.tables["us-east-1"]["expires"] == "~expires"


def test_the_state_says_that_time_to_live_is_missing() -> None:
    """`ledger table status` names it where the settings want it and the table has it not."""
    aws = FakeAws()
    aws.run()
    assert table_state(SETTINGS, connect=aws.connect).left == ()
    left = table_state(EXPIRING, connect=aws.connect).left
    assert [str(step) for step in left] == ["us-east-1: turn on time to live by ~expires"]


WANTED = WarmThroughput(40_000, 20_000)


def create_warm(settings: Settings, **options: Any) -> Any:
    """Make a table that serves more at once."""
    return create_table(settings, warm=WANTED, **options)


def test_warm_throughput_is_raised_once_for_all_replicas() -> None:
    """One request through the base, after the replicas; a second run sends none."""
    aws = FakeAws()
    taken = aws.run(create_warm).taken
    assert [step for step in taken if step.kind is StepKind.WARM] == [
        TableStep(StepKind.WARM, "us-east-1")
    ]
    assert aws.tables["us-east-1"]["WarmThroughput"] == WANTED.request
    assert aws.run(create_warm).taken == ()


def test_warm_throughput_is_neither_lowered_nor_asked_for_by_itself() -> None:
    """A table that serves more already is left as it is, and one without the option too."""
    aws = FakeAws()
    aws.run()
    assert "WarmThroughput" not in aws.tables["us-east-1"]
    aws.tables["us-east-1"]["WarmThroughput"] = WarmThroughput(90_000, 90_000).request
    assert aws.run(create_warm).taken == ()


def test_creating_waits_until_the_table_is_warm() -> None:
    """While AWS still raises the throughput, the table is not said to be ready."""
    aws = FakeAws()
    aws.run()
    warming = {**WANTED.request, "Status": "UPDATING"}
    aws.warm_as = warming
    with pytest.raises(Unreachable, match="still to do: us-east-1: raise the warm throughput"):
        create_warm(
            SETTINGS,
            connect=aws.connect,
            patience=aws.patience(timeout_seconds=60),
        )


CREATE_REQUESTS = 9


@pytest.mark.parametrize("step", range(CREATE_REQUESTS))
def test_a_run_stopped_at_any_step_is_finished_by_the_next(step: int) -> None:
    """Whichever request was the last, running again does what is missing."""
    aws = FakeAws()
    aws.fail_at = step
    with pytest.raises(AccessDenied, match="table ledger"):
        aws.run()
    aws.run()
    assert finished(aws)


def test_the_steps_above_are_all_there_are() -> None:
    """The test of interruptions covers each request of a whole run."""
    aws = FakeAws()
    aws.run()
    assert len(aws.requests) == CREATE_REQUESTS


@pytest.mark.parametrize(
    "code", ["ResourceInUseException", "LimitExceededException", "ThrottlingException"]
)
@pytest.mark.parametrize("step", range(CREATE_REQUESTS))
def test_a_busy_control_plane_is_waited_for(step: int, code: str) -> None:
    """A step refused because something else is under way is taken again later."""
    aws = FakeAws()
    aws.fail_at, aws.fail_with = step, lambda: refused(code)
    aws.run()
    assert finished(aws)


def test_a_replica_missing_later_is_added() -> None:
    """A region added to the settings gets its replica and nothing else is touched."""
    aws = FakeAws()
    two = SETTINGS.replace(regions={name: Region() for name in REGIONS[:2]})
    aws.run(settings=two)
    taken = aws.run().taken
    assert {step.region for step in taken} == {"ap-southeast-1"}
    assert [step.kind for step in taken] == [StepKind.REPLICA, StepKind.RECOVERY, StepKind.PROTECT]


def test_a_new_home_is_added_through_the_region_that_has_the_table() -> None:
    """The table is never made a second time beside an existing one."""
    aws = FakeAws()
    aws.run(settings=Settings(home="eu-west-1", regions={"eu-west-1": Region()}))
    aws.run()
    assert finished(aws)
    assert [region for region, name in aws.requests if name == "create_table"] == ["eu-west-1"]


def test_a_table_without_a_stream_gets_one() -> None:
    """A table of the right keys made by hand becomes the global table."""
    aws = FakeAws()
    aws.tables["us-east-1"] = plain_table()
    state = aws.run()
    assert state.taken[0] == TableStep(StepKind.STREAM, "us-east-1")
    assert finished(aws)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]},
            r"its keys are id \(\?, HASH\), the ledger's are pk \(S, HASH\), sk \(S, RANGE\)",
        ),
        (
            {
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "N"},
                ]
            },
            r"sk \(N, RANGE\), the ledger's",
        ),
        (
            {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}},
            "its stream shows KEYS_ONLY, replicas need NEW_AND_OLD_IMAGES",
        ),
        ({"MultiRegionConsistency": "STRONG"}, "STRONG consistent, for which AWS offers no trans"),
        ({"TableStatus": "INACCESSIBLE_ENCRYPTION_CREDENTIALS"}, "does not pass by itself"),
        ({"expires": "change"}, "its time to live goes by 'change', so an item of the ledger"),
    ],
)
@pytest.mark.parametrize("do", [create_table, delete_table])
def test_a_table_of_another_shape_is_refused(
    do: Callable[..., Any], changes: dict[str, Any], named: str
) -> None:
    """The difference is named and nothing is changed, nor deleted."""
    aws = FakeAws()
    aws.tables["us-east-1"] = plain_table(**changes)
    with pytest.raises(RequestRefused, match=named):
        aws.run(do)
    assert aws.requests == []


def test_two_tables_of_one_name_are_no_global_table() -> None:
    """A table in another region that is no replica of home's is never touched."""
    aws = FakeAws()
    aws.tables["us-east-1"] = plain_table()
    aws.tables["eu-west-1"] = plain_table(peers={"eu-west-1"})
    with pytest.raises(RequestRefused, match="eu-west-1, table ledger: it is a separate table"):
        aws.run()
    assert aws.requests == []


def test_a_replica_that_the_settings_do_not_name_is_refused() -> None:
    """Merging must see every replica, so one that it would not see stops everything."""
    aws = FakeAws()
    aws.run()
    two = SETTINGS.replace(regions={name: Region() for name in REGIONS[:2]})
    with pytest.raises(SettingsError, match="a replica in ap-southeast-1, which is not one of"):
        aws.run(settings=two)


def test_waiting_ends_with_what_is_still_to_do() -> None:
    """A step that never ends is reported as such, and is not sent again and again."""
    aws = FakeAws()

    def stuck(settings: Settings) -> Clients:
        clients = aws.connect(settings)
        cast("Any", clients["eu-west-1"]).go_on = lambda _region: None
        return clients

    with pytest.raises(Unreachable, match=r"not done within 60 s, still to do: eu-west-1: add"):
        create_table(
            SETTINGS,
            connect=stuck,
            patience=aws.patience(timeout_seconds=60),
        )
    assert aws.requests.count(("us-east-1", "update_table")) == 1


def test_progress_counts_to_the_end() -> None:
    """Each report names the step, whether it waits, and never goes back."""
    aws = FakeAws()
    seen: list[TableProgress] = []
    create_table(
        SETTINGS,
        connect=aws.connect,
        patience=aws.patience(timeout_seconds=600),
        report=seen.append,
    )
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert {each.total for each in seen} == {CREATE_REQUESTS}
    assert {each.waiting for each in seen} == {True, False}
    assert str(seen[0]) == "us-east-1: create the table"


def test_deleting_takes_protection_replicas_and_table() -> None:
    """Nothing is left in any region, and the base goes last."""
    aws = FakeAws()
    aws.run()
    state = aws.run(delete_table)
    assert aws.tables == {}
    kinds = [kind for kind, _ in itertools.groupby(step.kind for step in state.taken)]
    assert kinds == [StepKind.UNPROTECT, StepKind.REMOVE, StepKind.DELETE]
    assert aws.run(delete_table).taken == ()


@pytest.mark.parametrize("step", range(6))
def test_a_deletion_stopped_at_any_step_is_finished_by_the_next(step: int) -> None:
    """Whichever request was the last, deleting again does the rest."""
    aws = FakeAws()
    aws.run()
    aws.fail_at = len(aws.requests) + step
    with pytest.raises(LedgerError):
        aws.run(delete_table)
    aws.run(delete_table)
    assert aws.tables == {}


def test_the_state_shows_regions_that_cannot_be_read() -> None:
    """One region's error does not hide what the others show."""
    aws = FakeAws()
    aws.run()

    def half(settings: Settings) -> Clients:
        clients = aws.connect(settings)

        def denied(**_: Any) -> None:
            raise refused("AccessDeniedException")

        cast("Any", clients["eu-west-1"]).describe_table = denied
        return clients

    state = table_state(SETTINGS, connect=half)
    assert set(state.errors) == {"eu-west-1"}
    assert state.views["us-east-1"] is not None
    assert state.views["eu-west-1"] is None
