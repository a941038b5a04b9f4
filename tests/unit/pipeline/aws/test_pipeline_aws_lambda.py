import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.ledgers import HOME, make_settings
from support.pipelines import CATEGORIES, FIELDS, POISON, message, shown, truth
from support.stream_events import event_of, kinesis_records, recorded

from ledger.administration.templates.pipeline_function import FUNCTION_SECONDS_MAX, HANDLER
from ledger.core.contract_item import Contract, contract_item, contract_key
from ledger.core.errors import ContractConflict, ContractMissing, SettingsError
from ledger.pipeline.aws import aws_lambda
from ledger.pipeline.aws.aws_lambda import (
    STOP_MARGIN_SECONDS,
    KeptConnections,
    chosen_settings,
    environment,
    handler,
)
from ledger.pipeline.aws.invocations import REPORTED
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.runtime.clock import SystemClock
from ledger.runtime.cloudwatch import PIPELINE_NAMESPACE
from ledger.store.memory import MemoryStore
from ledger.store.port import Store


@dataclass
class LambdaContext:
    """What Lambda hands in."""

    function_name: str = "pipeline-function"
    seconds: float = FUNCTION_SECONDS_MAX

    def get_remaining_time_in_millis(self) -> int:
        """Give the time that the test wants to be left."""
        return int(self.seconds * 1000)


class InMemory(KeptConnections):
    """Connections to a table in memory, which all environments share."""

    table = MemoryStore(HOME).table
    opened = 0
    found: Sequence[Mapping[str, Any]] = ()
    asked: ClassVar[list[str]] = []

    async def store(self, region: str) -> Store:
        """Return the store of a region."""
        if region not in self._stores:
            type(self).opened += 1
            self._stores[region] = MemoryStore(region, self.table)
        return self._stores[region]

    async def mappings(self, source: str) -> Sequence[Mapping[str, Any]]:
        """Return what the test says."""
        type(self).asked.append(source)
        return self.found

    async def following(self, region: str, lane: str, position: str) -> str | None:
        """Find nothing."""
        assert (region, bool(lane), bool(position)) == (HOME, True, True)
        return None

    async def dead_letters(self, region: str) -> DeadLetterList:
        """Return a list that no one reads."""
        assert region == HOME
        return DeadLetterList()


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[InMemory]]:
    """Give the function a regions.yaml of its own, and a table in memory."""
    config = tmp_path / "regions.yaml"
    settings = make_settings(
        pipeline={"fields": FIELDS, "categories": CATEGORIES, "reduce_every": 0}
    )
    config.write_text(settings.model_dump_json(exclude_none=True), encoding="utf-8")
    monkeypatch.setenv("LEDGER_CONFIG", str(config))
    monkeypatch.setattr(aws_lambda, "KeptConnections", InMemory)
    table = MemoryStore(HOME).table
    table.set(contract_key(generation=1), contract_item(Contract(terms=settings.terms)))
    monkeypatch.setattr(InMemory, "table", table)
    monkeypatch.setattr(InMemory, "opened", 0)
    monkeypatch.setattr(InMemory, "asked", [])
    environment.cache_clear()
    yield InMemory
    if environment.cache_info().currsize:
        environment().close()
    environment.cache_clear()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what was logged as metrics."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_invocations_share_what_is_open(in_memory: type[InMemory]) -> None:
    """A warm start opens nothing again; each event is in the totals once, whatever comes again."""
    raws = [message("T1", 1, 10), message("T2", 1, 5), message("T1", 2, 12)]
    records = kinesis_records(raws)
    for event in (records[:1], records[:2], records[1:]):
        assert handler(event_of(event), LambdaContext()) == {"batchItemFailures": []}
    assert shown(in_memory.table) == truth(raws)
    assert in_memory.opened == 1


def test_what_is_done_is_told_as_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    """Each invocation logs its own counts, and how old its newest record was when it counted."""
    raws = [message("T1", 1, 10), message("T1", 1, 10), POISON]
    handler(event_of(kinesis_records(raws)), LambdaContext())
    handler(recorded("dynamodb_window_end"), LambdaContext())
    first, second = lines(capsys)
    assert (first["Records"], first["Duplicates"], first["DeadLetters"]) == (3, 1, 1)
    assert (first["Again"], first["Stale"], first["Retried"]) == (0, 0, 0)
    assert first["LagSeconds"] > 0
    assert (second["Records"], second["Duplicates"], second["DeadLetters"]) == (0, 0, 0)
    assert "LagSeconds" not in second
    (described,) = first["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == PIPELINE_NAMESPACE
    assert first["FunctionName"] == "pipeline-function"
    units = {one["Name"]: one["Unit"] for one in described["Metrics"]}
    assert units == {
        name: "Seconds" if name == "LagSeconds" else "Count"
        for name in first
        if name not in {"_aws", "FunctionName"}
    }


def test_settings_that_are_wrong_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that could not begin keeps nothing: put right, it begins."""
    with monkeypatch.context() as patch:
        patch.setenv("LEDGER_CONFIG", "no/such/regions.yaml")
        with pytest.raises(SettingsError, match="no/such/regions"):
            handler(event_of([]), LambdaContext())
    assert handler(event_of([]), LambdaContext()) == {"batchItemFailures": []}


@pytest.mark.parametrize("chosen", ["", "fx", "trades"])
def test_one_of_several_pipelines_is_chosen_with_the_functions_own_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: str
) -> None:
    """The queue that the stack made is the chosen pipeline's, whichever that is."""
    one = {"fields": FIELDS, "reduce_every": 3, "dead_letter_queue": "https://sqs.example/0/file"}
    names = ("", "fx", "trades")
    several = {name: {**one, "categories": [f"{name}x/{{K}}"]} for name in names}
    settings = make_settings(pipeline=several.pop(""), pipelines=several)
    config = tmp_path / "several.yaml"
    config.write_text(settings.model_dump_json(exclude_none=True), encoding="utf-8")
    monkeypatch.setenv("LEDGER_CONFIG", str(config))
    monkeypatch.setenv("LEDGER_CHOSEN_PIPELINE", chosen)
    monkeypatch.setenv("LEDGER_PIPELINE__DEAD_LETTER_QUEUE", "https://sqs.example/0/stack")
    monkeypatch.setenv("LEDGER_PIPELINE__REDUCE_EVERY", "0")
    found = chosen_settings().pipeline
    assert (found.name, found.categories) == (chosen, (f"{chosen}x/{{K}}",))
    assert found.dead_letter_queue == "https://sqs.example/0/stack"
    assert found.reduce_every == 0


def test_a_pipeline_that_is_not_in_the_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt parameter of the stack begins no pipeline of its own."""
    monkeypatch.setenv("LEDGER_CHOSEN_PIPELINE", "tradez")
    with pytest.raises(SettingsError, match="no pipeline 'tradez'"):
        handler(event_of([]), LambdaContext())


def test_a_mapping_that_would_lose_records_is_refused_before_the_first(
    in_memory: type[InMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at once by an environment that goes on; nothing is counted under a wrong one."""
    event = event_of(kinesis_records([message("T1", 1, 10)]))
    arn = f"arn:aws:lambda:{HOME}:111122223333:function:pipeline-function"
    mapping = {"FunctionArn": arn, "FunctionResponseTypes": [REPORTED]}
    monkeypatch.setattr(in_memory, "found", [{**mapping, "ParallelizationFactor": 2}])
    with pytest.raises(SettingsError, match="a parallelization factor of 2: set it to 1"):
        handler(event, LambdaContext())
    assert shown(in_memory.table) == {}
    monkeypatch.setattr(in_memory, "found", [{**mapping, "ParallelizationFactor": 1}])
    for _ in range(2):
        assert handler(event, LambdaContext()) == {"batchItemFailures": []}
    assert in_memory.asked == [event["Records"][0]["eventSourceARN"]] * 2


def test_a_function_goes_by_the_tables_contract(in_memory: type[InMemory]) -> None:
    """Without one it brings nothing in, nor beside one that its file contradicts."""
    records = kinesis_records([message("T1", 1, 10)])
    terms = make_settings(shards={"risk/*": 4}).terms
    in_memory.table.set(contract_key(generation=1), None)
    with pytest.raises(ContractMissing, match="ledger table adopt"):
        handler(event_of(records), LambdaContext())
    in_memory.table.set(contract_key(generation=1), contract_item(Contract(terms=terms)))
    with pytest.raises(ContractConflict, match="shards is"):
        handler(event_of(records), LambdaContext())


async def test_a_function_without_a_queue_does_not_begin() -> None:
    """There must be a place for records that cannot be taken, before the first of them."""
    with pytest.raises(SettingsError, match="LEDGER_PIPELINE__DEAD_LETTER_QUEUE"):
        await KeptConnections(make_settings(), SystemClock()).dead_letters(HOME)


def test_a_batch_has_most_of_the_functions_time() -> None:
    """What is cut off has time to be told, and a batch more than all tries of one request."""
    settings = make_settings()
    assert STOP_MARGIN_SECONDS < FUNCTION_SECONDS_MAX / 2
    assert settings.write_deadline < FUNCTION_SECONDS_MAX - STOP_MARGIN_SECONDS


def test_the_handler_is_the_one_that_the_template_names() -> None:
    """The template's command names this module and function."""
    assert f"{handler.__module__}.{handler.__name__}" == HANDLER
