"""The state of the fleet over a local global table: what is read, what is named, who may ask."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Thread, current_thread, main_thread
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from support.permissions import Call, granted

from compactor.job import Compactor
from ledger.administration.templates import Role, policy
from ledger.http.service.access.access import OpenAccess
from ledger.http.service.access.tokens import TokenGrant, checked_grant
from ledger.http.service.app import ServiceParts, create_app
from ledger.http.service.fleet.observer import Fleet
from ledger.http.service.gate import RequestLog
from ledger.local import LocalGlobalTable
from ledger.pipeline.core.registry import lane_entry
from ledger.runtime.aws_session import open_session
from ledger.runtime.clock import SystemClock
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.transports.lean import LeanTransport
from ledger.store.transports.sdk import SdkTransport
from ledger.store.writes import Put

pytestmark = pytest.mark.slow

HOME, AWAY = "us-east-1", "eu-west-1"


class GrantedAccess(OpenAccess):
    """Everybody has one grant."""

    def __init__(self, grant: TokenGrant) -> None:
        self._grant = grant

    def grant(self, authorization: str | None) -> TokenGrant:  # noqa: ARG002 (as `Access`)
        """Return it."""
        return self._grant


@dataclass(frozen=True, slots=True)
class FleetService:
    """A service of home over a local table."""

    world: LocalGlobalTable
    settings: Settings
    ledger: Ledger
    http: httpx.AsyncClient
    fleet: Fleet

    async def get(self, path: str) -> Any:
        """Return the JSON at a path."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def fleet_service(*scopes: str) -> AsyncIterator[FleetService]:
    """Serve two regions; with scopes, callers have these alone."""
    async with LocalGlobalTable.start(regions=[HOME, AWAY], lag=0.0, jitter=0.0) as world:
        settings = world.settings(index=["*"])
        ledger = Ledger.open(settings, region=HOME)
        parts = ServiceParts(
            clock=SystemClock(),
            access=GrantedAccess(checked_grant("some", scopes)) if scopes else OpenAccess(),
            registry=CollectorRegistry(),
            requests=RequestLog(lambda: "id", lambda _seen: None),
        )
        app, context = create_app(ledger, parts)
        transport = httpx.ASGITransport(app=app)
        async with (
            ledger,
            context.fleet,
            httpx.AsyncClient(transport=transport, base_url="http://ledger.test") as http,
        ):
            yield FleetService(world, settings, ledger, http, context.fleet)


async def test_regions_contract_leaders_and_backlog_are_read() -> None:
    """After a pass of a compactor all of them are known, and every region is there."""
    async with fleet_service() as service:
        await service.ledger.record("shop", 5)
        report = await Compactor(service.settings).run_once()
        assert report.is_success, report.sentence()
        found = await service.get("/v1/fleet")
    assert [one["region"] for one in found["regions"]] == [HOME, AWAY]
    assert [one["home"] for one in found["regions"]] == [True, False]
    assert {one["table"]["status"] for one in found["regions"]} == {"ACTIVE"}
    assert all(one["clock"]["least"] <= one["clock"]["most"] for one in found["regions"])
    assert found["contract"]["terms"]["index"] == ["*"]
    assert found["merging"]["has_passes"]
    assert [one["outcome"] for one in found["compactor"]["passes"]] == ["done"]
    assert len(found["trend"]) == 1
    assert {one["target"] for one in found["lags"]} == {AWAY}
    assert {one["state"] for one in found["findings"]} <= {"ok", "unknown", "warning"}
    assert "credentials" not in {one["check"] for one in found["findings"]}


async def test_no_client_is_made_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes as long as many requests: these would wait. And each is made once."""
    async with fleet_service() as service:
        threads, opened = list[Thread](), open_session

        def noted(profile: str | None = None) -> Any:
            threads.append(current_thread())
            return opened(profile)

        monkeypatch.setattr("ledger.store.connections.open_session", noted)
        made: list[int] = []
        for _ in range(2):
            service.fleet._last = None
            await service.get("/v1/fleet")
            assert (await service.http.post("/v1/fleet/probe")).status_code == 200
            await service.get("/v1/fleet/totals?id=shop")
            made.append(len(threads))
    assert made[0] == made[1] > 0
    assert main_thread() not in threads


async def test_a_look_holds_for_some_seconds() -> None:
    """However many people watch, the table is asked once."""
    async with fleet_service() as service:
        first, second = await service.get("/v1/fleet"), await service.get("/v1/fleet")
    assert first["at"] == second["at"]


async def test_each_pair_of_regions_is_probed() -> None:
    """Both directions, and the items are gone afterwards."""
    async with fleet_service() as service:
        answer = await service.http.post("/v1/fleet/probe")
        assert answer.status_code == 200
        found = answer.json()
    assert {(one["source"], one["target"]) for one in found["lags"]} == {(HOME, AWAY), (AWAY, HOME)}
    assert all(one["failed"] == "" for one in found["lags"])
    assert found["lags_at"] is not None


async def test_a_region_that_cannot_be_reached_is_named() -> None:
    """It hides neither the other region nor what home knows of merging."""
    async with fleet_service() as service:
        service.world.set_outage(AWAY, on=True)
        found = await service.get("/v1/fleet")
        totals = (await service.get("/v1/fleet/totals?id=shop"))["regions"]
    tables = {one["region"]: one["table"] for one in found["regions"]}
    assert tables[HOME]["status"] == "ACTIVE"
    assert tables[AWAY]["failed"]
    assert any(one["region"] == AWAY and one["state"] == "unknown" for one in found["findings"])
    assert found["merging"]["home"] == HOME
    assert totals[HOME]["totals"][0]["value"] == "0"
    assert totals[AWAY]["failed"]


async def test_totals_are_read_in_every_region() -> None:
    """Each region's own, beside each other."""
    async with fleet_service() as service:
        await service.ledger.record("shop", 5)
        await service.ledger.record("other", -1)
        await service.world.wait_replicated()
        found = await service.get("/v1/fleet/totals?id=shop&id=other")
    for region in (HOME, AWAY):
        assert [one["value"] for one in found["regions"][region]["totals"]] == ["5", "-1"]


async def test_lanes_of_pipelines_are_listed() -> None:
    """As the registry names them, whether they have a position yet or not."""
    async with fleet_service() as service:
        await service.ledger.store.write(Put(lane_entry(f"{HOME}/trades")))
        found = await service.get("/v1/fleet")
    ((pipeline),) = found["pipelines"]
    assert [one["lane"] for one in pipeline["lanes"]] == [f"{HOME}/trades"]
    assert pipeline["lanes"][0]["waiting"] == 0


async def test_the_session_says_what_the_caller_may_do_and_where() -> None:
    """Any scope is enough to ask."""
    async with fleet_service("read") as service:
        found = await service.get("/v1/session")
    assert found["caller"] == "some"
    assert found["scopes"] == ["read"]
    assert (found["region"], found["home"], found["regions"]) == (HOME, HOME, [HOME, AWAY])
    assert found["index"] == ["*"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/fleet"), ("POST", "/v1/fleet/probe"), ("GET", "/v1/fleet/totals?id=a")],
)
async def test_the_fleet_is_for_operators(method: str, path: str) -> None:
    """Whoever may read and write counters may not look at the fleet."""
    async with fleet_service("read", "write", "reverse") as service:
        answer = await service.http.request(method, path)
    assert answer.status_code == 403


async def test_the_service_has_just_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look, totals and a probe: what reader and writer may not do, its own policy allows."""
    asked = list[Call]()

    def noted(transport: type[LeanTransport | SdkTransport]) -> None:
        send = transport.send

        async def note(self: Any, operation: str, request: dict[str, Any]) -> Any:
            action = operation.title().replace("_", "")
            asked.append(Call(action, HOME, tuple(_partitions(request))))
            return await send(self, operation, request)

        monkeypatch.setattr(transport, "send", note)

    async with fleet_service() as service:
        await service.ledger.record("shop", 5)
        assert (await Compactor(service.settings).run_once()).is_success
        noted(LeanTransport)
        noted(SdkTransport)
        await service.get("/v1/fleet")
        await service.get("/v1/fleet/totals?id=shop")
        assert (await service.http.post("/v1/fleet/probe")).status_code == 200
        settings = service.settings.replace(table="money")
    others = [policy(settings, role) for role in (Role.READER, Role.WRITER)]
    left = {
        (call.action, *call.partitions)
        for call in asked
        if not any(call.is_allowed(document) for document in others)
    }
    own = policy(settings, Role.SERVICE)
    assert {one for one in left if not Call(one[0], HOME, one[1:]).is_allowed(own)} == set()
    assert {action for action, *_ in left} == granted(Role.SERVICE, HOME)


def _partitions(request: Any) -> Iterator[str]:
    """Yield the partition keys that a request names."""
    if isinstance(request, Mapping):
        for name, value in request.items():
            if name == "pk" and isinstance(value, Mapping):
                yield value["S"]
            else:
                yield from _partitions(value)
    elif isinstance(request, list):
        for value in request:
            yield from _partitions(value)
