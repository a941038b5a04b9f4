"""Sessions of the AWS SDK: apart in what is secret, shared in what the SDK reads of its own."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.exceptions import BotoCoreError

from ledger.runtime.aws_answers import LARGE_AT_ONCE, LARGE_BYTES
from ledger.runtime.aws_session import open_session


def test_the_descriptions_of_services_are_read_once() -> None:
    """Two sessions have one object of them, and each its own profile and credentials."""
    first, second = open_session(), open_session()
    assert first is not second
    assert first.get_component("data_loader") is second.get_component("data_loader")
    assert first.get_component("credential_provider") is not second.get_component(
        "credential_provider"
    )


def test_another_search_path_is_read_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AWS_DATA_PATH, changed between two sessions, counts for the second."""
    described = tmp_path / "ledger-test" / "2026-01-01"
    described.mkdir(parents=True)
    (described / "service-2.json").write_text(json.dumps({"metadata": {}}), encoding="utf-8")
    before = open_session().get_component("data_loader")
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    after = open_session().get_component("data_loader")
    assert "ledger-test" not in before.list_available_services("service-2")
    assert "ledger-test" in after.list_available_services("service-2")


def test_a_profile_that_does_not_exist_is_refused() -> None:
    """When the session is opened, not by its first request."""
    with pytest.raises(BotoCoreError, match="nobody"):
        open_session("nobody")


@pytest.mark.parametrize(("size", "at_once"), [(LARGE_BYTES - 1, 20), (LARGE_BYTES, LARGE_AT_ONCE)])
async def test_of_large_answers_the_sdk_reads_a_few_in_each_round(size: int, at_once: int) -> None:
    """One takes many milliseconds: those that come together would hold up all others."""
    emitter, reads, turn = open_session().get_component("event_emitter"), Counter[int](), 0
    service = SimpleNamespace(service_model=SimpleNamespace(service_name="kinesis"))
    headers = {"x-amzn-requestid": "1"}
    answer = {"status_code": 200, "headers": headers, "body": bytes(size)}

    async def read() -> None:
        await emitter.emit("before-parse.kinesis", operation_model=service, response_dict=answer)
        reads[turn] += 1

    tasks = [asyncio.create_task(read()) for _ in range(20)]
    while not all(one.done() for one in tasks):
        await asyncio.sleep(0)
        turn += 1
    assert (reads.total(), max(reads.values())) == (20, at_once)
