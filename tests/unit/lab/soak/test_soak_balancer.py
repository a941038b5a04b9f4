"""The load balancer of a soak: who gets a request, and what is made of each that fails."""

from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from lab.soak.balancer import CUT, GIVEN_UP, REFUSED, TIMED_OUT, Attempt, Balancer
from lab.soak.instances import Instance, Life
from support.soaking import an_instance

from ledger.testing.clock import ManualClock

PATH = "http://service/v1/counters/a"


class BrokenBody(httpx.AsyncByteStream):
    """The body of an answer whose connection breaks."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield half of it."""
        yield b"{"
        raise httpx.ReadError("broken")


def a_balancer(
    *instances: Instance,
    answer: Callable[[httpx.Request], httpx.Response] | None = None,
    is_late: bool = False,
) -> tuple[httpx.AsyncClient, list[Attempt]]:
    """Return a client behind a balancer, and what this tells."""
    told: list[Attempt] = []
    balancer = Balancer(
        instances,
        clock=ManualClock(instant=True),
        on_attempt=told.append,
        is_calm=lambda: False,
        was_late=lambda _: is_late,
        http=httpx.MockTransport(answer or (lambda _: httpx.Response(200, json={}))),
    )
    return httpx.AsyncClient(transport=balancer), told


async def ports(*instances: Instance) -> list[int | None]:
    """Return where four requests go."""
    client, told = a_balancer(*instances)
    async with client:
        for _ in range(4):
            await client.get(PATH)
    return [None if one.life is None else one.life.port for one in told]


async def test_ready_instances_take_turns() -> None:
    """One that is not ready gets nothing."""
    ready = [an_instance(1, is_ready=True), an_instance(2), an_instance(3, is_ready=True)]
    assert await ports(*ready) == [3, 1, 3, 1]


async def test_where_none_is_ready_those_that_stay_are_asked() -> None:
    """As load balancers do: an outage of the table is for the instances to tell."""
    assert await ports(an_instance(1), an_instance(2, is_leaving=True)) == [1, 1, 1, 1]


async def test_without_an_instance_no_connection_is_made() -> None:
    """The client learns at once that nothing was sent."""
    client, told = a_balancer()
    async with client:
        with pytest.raises(httpx.ConnectError, match="no instance is up"):
            await client.get(PATH)
    assert [one.result for one in told] == [REFUSED]


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (httpx.ConnectError("refused"), REFUSED),
        (httpx.ReadTimeout("late"), TIMED_OUT),
        (httpx.RemoteProtocolError("disconnected"), CUT),
    ],
)
async def test_what_comes_in_place_of_an_answer_is_told(
    error: httpx.TransportError, result: str
) -> None:
    """The client gets the error, the run what it was."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    client, told = a_balancer(an_instance(1, is_ready=True), answer=fail)
    async with client:
        with pytest.raises(type(error)):
            await client.get(PATH)
    assert [one.result for one in told] == [result]


@pytest.mark.parametrize(
    ("is_ready", "is_late", "asked_before", "is_clear"),
    [
        (True, False, 0.5, True),
        (False, False, 0.5, False),
        (True, True, 0.5, False),
        (True, False, 3.0, False),
    ],
)
async def test_an_attempt_is_clear_at_a_ready_instance_by_a_client_in_time(
    *, is_ready: bool, is_late: bool, asked_before: float, is_clear: bool
) -> None:
    """What a late client does, or one that knows of no ready instance of late, is its own."""
    ready_at = ManualClock(instant=True).monotonic() - asked_before
    client, told = a_balancer(an_instance(1, is_ready=is_ready, ready_at=ready_at), is_late=is_late)
    async with client:
        await client.get(PATH)
    assert [one.is_clear for one in told] == [is_clear]


async def test_half_a_body_is_a_connection_cut() -> None:
    """An answer counts once all of it has come."""
    client, told = a_balancer(
        an_instance(1, is_ready=True), answer=lambda _: httpx.Response(200, stream=BrokenBody())
    )
    async with client:
        with pytest.raises(httpx.ReadError):
            await client.get(PATH)
    assert [one.result for one in told] == [CUT]


async def test_a_connection_that_breaks_tells_which_side_closed_it() -> None:
    """By what the socket said."""

    def broken(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("") from ConnectionResetError(104, "reset by peer")

    client, told = a_balancer(an_instance(1, is_ready=True), answer=broken)
    async with client:
        with pytest.raises(httpx.ReadError):
            await client.get(PATH)
    assert "ReadError('') from ConnectionResetError(104, 'reset by peer')" in told[0].text


def attempt(result: str, *, is_calm: bool = False, is_clear: bool = True, **life: bool) -> Attempt:
    """Return an attempt at an instance."""
    return Attempt("POST /v1/entries", result, 0.5, Life("a-0", 1, **life), is_calm, is_clear)


@pytest.mark.parametrize(
    "held",
    [
        attempt(CUT, is_killed=True),
        attempt(CUT, is_asked_to_end=True, is_killed=True),
        attempt("502"),
        attempt("502", is_calm=True, is_clear=False),
        attempt(CUT, is_asked_to_end=True, is_clear=False),
        attempt(TIMED_OUT, is_calm=True),
        attempt("201", is_calm=True),
        attempt("410", is_calm=True),
        attempt("503", is_calm=True),
        attempt(REFUSED, is_calm=True, is_asked_to_end=True),
        attempt(GIVEN_UP, is_calm=True),
        Attempt("GET /", REFUSED, 0.0),
    ],
)
def test_what_faults_explain_breaks_no_promise(held: Attempt) -> None:
    """Kills cut connections; what is refused, or 503, is repeated; waits are the machine's."""
    assert held.complaint() is None


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (attempt(CUT, is_asked_to_end=True), "drain"),
        (attempt(CUT), "connections"),
        (attempt("500"), "answers"),
        (attempt("500", is_clear=False), "answers"),
        (attempt("502", is_calm=True), "rolling restart"),
    ],
)
def test_what_nothing_explains_breaks_one(broken: Attempt, rule: str) -> None:
    """A drain that cuts a request, and any failure that is the restart's own."""
    found = broken.complaint()
    assert found is not None
    assert found[0] == rule
    assert "POST /v1/entries at a-0" in found[1]
