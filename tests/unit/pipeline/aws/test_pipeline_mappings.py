"""What of event source mappings is refused, how often they are looked at, and when that fails."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ledger.administration.templates import pipeline_template
from ledger.core.errors import SettingsError
from ledger.pipeline.aws.invocations import (
    AGAIN_SECONDS,
    REPORTED,
    MappingCheck,
    mappings_of,
    problems,
)
from ledger.settings import Settings
from ledger.testing.clock import ManualClock

SOURCE = "arn:aws:kinesis:us-east-1:111122223333:stream/trades"
ARN = "arn:aws:lambda:us-east-1:111122223333:function:count"
GOOD = {"UUID": "a1", "FunctionArn": ARN, "FunctionResponseTypes": [REPORTED], "State": "Enabled"}
EVENT = {"Records": [{"eventSourceARN": SOURCE}]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], []),
        ([GOOD], []),
        ([{**GOOD, "ParallelizationFactor": 1, "FilterCriteria": {"Filters": []}}], []),
        ([GOOD, {**GOOD, "State": "Disabled", "ParallelizationFactor": 9}], []),
        ([GOOD, {"FunctionArn": f"{ARN}-of-others"}], []),
        ([GOOD, {**GOOD, "UUID": "b2", "FunctionArn": f"{ARN}:live"}], ["2 event source mappings"]),
        ([{**GOOD, "ParallelizationFactor": 10}], ["a parallelization factor of 10: set it to 1"]),
        ([{**GOOD, "FunctionResponseTypes": []}], ["set ReportBatchItemFailures"]),
        (
            [{**GOOD, "FunctionResponseTypes": None, "FilterCriteria": {"Filters": [{}]}}],
            ["set ReportBatchItemFailures", "has a filter"],
        ),
    ],
)
def test_what_would_lose_records_is_named(
    found: Sequence[Mapping[str, Any]], expected: Sequence[str]
) -> None:
    """Of mappings to the function, its versions and aliases, that are in use."""
    said = list(problems(found, SOURCE, "count"))
    assert len(said) == len(expected)
    assert all(part in line for part, line in zip(expected, said, strict=True))


def test_the_shipped_mappings_are_right() -> None:
    """The template makes what the function asks for."""
    settings = Settings(home="us-east-1", regions={"us-east-1": {}})
    for resource in pipeline_template(settings)["Resources"].values():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            made = {**resource["Properties"], "FunctionArn": ARN}
            assert list(problems([made], SOURCE, "count")) == []


async def test_mappings_are_looked_at_now_and_then() -> None:
    """Not for each event; a wrong one is refused each time, until it is right."""
    asked, clock = list[str](), ManualClock()
    found: Sequence[Mapping[str, Any]] = [GOOD]
    nothing: Sequence[Mapping[str, Any]] = ({}, {"Records": []}, {"Records": [{}]})

    async def ask(source: str) -> Sequence[Mapping[str, Any]]:
        asked.append(source)
        return found

    check = MappingCheck(ask, clock)
    for _ in range(3):
        await check.check(EVENT, "count")
    assert asked == [SOURCE]
    clock.pass_by(AGAIN_SECONDS)
    found = [{**GOOD, "ParallelizationFactor": 2}]
    for _ in range(2):
        with pytest.raises(SettingsError, match="parallelization factor of 2"):
            await check.check(EVENT, "count")
    found = [GOOD]
    await check.check(EVENT, "count")
    assert len(asked) == 4
    for event in nothing:
        await check.check(event, "count")
    assert len(asked) == 4


async def test_a_function_that_may_not_look_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """It says so: what it would have found shows in what it does, too."""

    async def ask(_source: str) -> Sequence[Mapping[str, Any]]:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListEventSourceMappings")

    await MappingCheck(ask, ManualClock()).check(EVENT, "count")
    assert "were not checked" in caplog.text


async def test_all_pages_are_read() -> None:
    """Each by the marker of the one before."""

    class Client:
        async def list_event_source_mappings(self, **request: Any) -> Mapping[str, Any]:
            assert request["EventSourceArn"] == SOURCE
            page = int(request.get("Marker", "0"))
            more = {"NextMarker": str(page + 1)} if page < 2 else {}
            return {"EventSourceMappings": [{"UUID": page}], **more}

    assert [one["UUID"] for one in await mappings_of(Client(), SOURCE)] == [0, 1, 2]
