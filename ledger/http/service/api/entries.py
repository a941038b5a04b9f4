"""Endpoints that write: an entry, many entries, retries, reversals, reconciliations."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from http import HTTPStatus
from typing import Any, cast

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from ledger.core.errors import InvalidEntry, KeyConflict, LedgerError, OutcomeUnknown
from ledger.core.fold import Portions
from ledger.core.own_keys import is_proved
from ledger.core.parts import whole_of
from ledger.core.values import Entry
from ledger.http.service.answers import CallRefused, Spoken, answer
from ledger.http.service.api.bodies import let_others_go_on, read_json_body
from ledger.http.service.context import (
    REQUEST,
    RESULTS,
    Context,
    allow,
    context_of,
    granted,
    is_still_allowed,
    problem_for,
    shown_to,
)
from ledger.http.service.openapi import written
from ledger.http.service.request_models import (
    EntriesBody,
    EntryBody,
    NamedEntryBody,
    ReconcileBody,
    RetryBody,
    ReverseBody,
    counter_in,
    entry_in,
    key_of,
)
from ledger.http.service.wait import for_change, one_of_few
from ledger.http.wire.problems import NOT_PROVED, Problem
from ledger.http.wire.schemas import EntryModel, ReconciledModel
from ledger.runtime.call_deadlines import bounded, deadline_of, has_come, left_until, not_sent
from ledger.runtime.tasks import run_all
from ledger.session.ledger import Ledger, record_change
from ledger.writes.entry_plan import Change

NOTE_SHOWN_MAX = 256
"""Characters that one of many results shows of the note of another's entry."""
LEGS_SHOWN_MAX = 8
"""Legs of another's transfer that one of many results shows: one with more is shown without any."""
ENTRIES_AT_ONCE = 128
"""Entries of one request that are under way together; they share batches with all others."""
PROOFS_AT_ONCE = 16
"""Entries of a retry whose proofs are checked in one turn of the event loop: with the most parts
one takes a millisecond.
"""
_NOTHING = Decimal(0)

_ENTRY = TypeAdapter(EntryBody)
_ENTRIES = TypeAdapter(EntriesBody)
_RETRY = TypeAdapter(RetryBody)
_REVERSE = TypeAdapter(ReverseBody)
_RECONCILE = TypeAdapter(ReconcileBody)

router = APIRouter(prefix="/v1", tags=["writing"])


@router.post("/counters/{counter}/entries", openapi_extra=written(EntryBody, "Entry", keyed=True))
@one_of_few("change", "write")
async def record(request: Request) -> Response:
    """Add a change to a counter; it is durable in this region when the answer comes.

    201 with the entry, 200 with it if an earlier request of this key had written it.
    """
    headers = request.headers
    counter = counter_in(request.path_params["counter"])
    body = await read_json_body(request, _ENTRY, "write")
    context = allow(request, "write", counter)
    key, at = key_of(headers.get("idempotency-key"), headers.get("idempotency-time"))
    entry = await context.ledger.record(
        counter,
        body.change,
        note=body.note,
        effective=body.effective,
        key=key,
        at=at,
        metadata=body.metadata,
        timeout=for_change(request),
    )
    return answer(EntryModel.fields_of(entry), status_of(entry))


@router.post("/entries", openapi_extra=written(EntriesBody, "Entries", keyed=True))
@one_of_few("list", "write")
async def record_many(request: Request) -> Response:
    """Add many changes: each with an outcome of its own, or, with `together`, all or none.

    The answer's `results` are in the order of the request, each with a `status` and an `entry` or
    a `problem`. With `together` an error is that of the whole request. So it is with a key of the
    request, which names the whole list: repeated, each of its changes counts once.
    """
    body = await read_json_body(request, _ENTRIES, "write")
    context = allow(request, "write", *(entry.counter for entry in body.entries))
    timeout, headers = for_change(request), request.headers
    key, at = body.named(headers.get("idempotency-key"), headers.get("idempotency-time"))
    asked = [entry.asked for entry in body.entries]
    if body.together and key is not None:
        raise InvalidEntry("the changes of a list with a key are not written together: send one")
    if body.together:
        entries = await context.ledger.record_together(asked, timeout=timeout)
        return await _answered(request, [_result(entry) for entry in entries])
    if key is not None or at is not None:
        entries = await context.ledger.record_many(asked, key=key, at=at, timeout=timeout)
        return await _answered(request, [_result(entry) for entry in entries])
    end = deadline_of(timeout)
    caller, late = granted(request).name, cache(partial(_not_begun, request))
    each = partial(_each, request, context.ledger, end=end, caller=caller, late=late)
    jobs = [partial(each, entry) for entry in body.entries]
    return await _answered(request, await run_all(jobs, at_once=ENTRIES_AT_ONCE))


@router.post("/retries", openapi_extra=written(RetryBody, "Entries"))
@one_of_few("list", "write")
async def retry(request: Request) -> Response:
    """Write the entries of an `outcome-unknown` problem again, under the same ids.

    Each counts once afterwards, whether the first attempt was applied or not. An entry comes with
    its `key`, which only its writer knows, and with its `parts`, if it has any; else nothing is
    written. All changes that share its item are written with it.
    """
    body = await read_json_body(request, _RETRY, "write")
    context = allow(request, "write", *(entry.counter for entry in body.entries))
    end = deadline_of(for_change(request))
    proofs = _in_turn(context, _all_proved(asked.entry for asked in body.entries))
    written_before = await bounded(end, proofs, not_sent)
    entries = await context.ledger.retry(
        written_before, together=body.together, timeout=left_until(end, not_sent)
    )
    return await _answered(request, [_result(entry) for entry in entries])


@router.post("/entries/{entry}/reverse", openapi_extra=written(ReverseBody, "Entry"))
@one_of_few("change", "reverse")
async def reverse(request: Request) -> Response:
    """Take an entry back by the opposite change, in the home region, once.

    Repeated it returns the reversal that was made first, with 200; to a token without the scope
    `read` without its note and effective date, unless the request has them, and without its legs.
    """
    body = await read_json_body(request, _REVERSE, "reverse")
    context = allow(request, "reverse", body.counter)
    named = Entry(body.counter, entry_in(request.path_params["entry"]), _NOTHING)
    entry = await context.ledger.reverse(
        named,
        note=body.note,
        effective=body.effective,
        timeout=for_change(request),
    )
    shown = shown_to(request, entry, note=body.note, effective=body.effective)
    return answer(shown, status_of(entry))


@router.post(
    "/counters/{counter}/reconciliations", openapi_extra=written(ReconcileBody, "Reconciled")
)
@one_of_few("change", "reverse")
async def reconcile(request: Request) -> Response:
    """Correct a total by a physical count, in the home region, once for each count.

    Repeated it returns what was done first, with 200; to a token without the scope `read` without
    its reason, unless the request has it.
    """
    counter = counter_in(request.path_params["counter"])
    body = await read_json_body(request, _RECONCILE, "reverse")
    context = allow(request, "reverse", counter)
    # A count without a name gets one that its caller can repeat it by.
    token = request.scope[REQUEST] if body.at is None and body.token is None else body.token
    try:
        done = await context.ledger.reconcile(
            counter,
            counted=body.counted,
            at=body.at,
            reason=body.reason,
            token=token,
            timeout=for_change(request),
        )
    except OutcomeUnknown as error:
        name = f"`token` {token!r}" if token else "the same `at`"
        detail = f"{counter!r} may be corrected or not: the same request with {name} corrects it"
        raise Spoken(f"{detail} once", entries=[], retryable=error.retryable) from error
    if not is_still_allowed(request, "read", counter):
        done = replace(done, reason=body.reason)
    return answer(
        ReconciledModel.fields_of(done), HTTPStatus.OK if done.repeated else HTTPStatus.CREATED
    )


async def _each(
    request: Request,
    ledger: Ledger,
    asked: NamedEntryBody,
    end: float,
    caller: str,
    late: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Return what became of one change of several of a caller, which all end together.

    `late` is what became of those that are not begun by then.
    """
    if has_come(end):
        return late()
    try:
        await context_of(request).changes.turn(caller)
        allow(request, "write", asked.counter)  # its turn may come long after the first one's
        entry = await _made(ledger, asked.asked, left_until(end, not_sent))
    except CallRefused as error:
        problem = error.problem
    except LedgerError as error:
        problem = problem_for(request, _shortened(error))
    else:
        return _result(entry)
    return _failed(problem)


async def _made(ledger: Ledger, change: Change, seconds: float) -> Entry:
    if change.legs is not None:
        return await record_change(ledger, change, seconds)
    return await ledger.record(
        change.counter,
        change.change,
        note=change.note,
        effective=change.effective,
        key=change.key,
        at=change.at,
        metadata=change.metadata,
        timeout=seconds,
    )


def _not_begun(request: Request) -> dict[str, Any]:
    return _failed(problem_for(request, not_sent()))


def _failed(problem: Problem) -> dict[str, Any]:
    return {"status": int(problem.kind.status), "problem": problem.fields()}


def _shortened(error: LedgerError) -> LedgerError:
    """Return an error as one of many says it: what the request does not have is cut.

    So an answer is about as long as its request, whatever the entries of the table are.
    """
    if not isinstance(error, KeyConflict) or (theirs := error.theirs) is None:
        return error
    note, legs, metadata = theirs.note, theirs.legs, theirs.metadata
    if len(note or "") > NOTE_SHOWN_MAX:
        note = f"{note:.{NOTE_SHOWN_MAX}}\N{HORIZONTAL ELLIPSIS}"
    if len(legs) > LEGS_SHOWN_MAX:
        legs = ()
    if sum(map(len, (metadata or {}).values())) > NOTE_SHOWN_MAX:
        metadata = None
    cut = replace(theirs, note=note, legs=legs, metadata=metadata)
    return KeyConflict(str(error), ours=error.ours, theirs=cut)


async def _answered(request: Request, results: Sequence[Mapping[str, Any]]) -> Response:
    """Return the answer of a request with many changes, whose own status says nothing of them."""
    request.scope[RESULTS] = Counter(result["status"] for result in results)
    await let_others_go_on()
    return answer({"results": results})


def _result(entry: Entry) -> dict[str, Any]:
    return {"status": int(status_of(entry)), "entry": EntryModel.fields_of(entry)}


def status_of(entry: Entry) -> HTTPStatus:
    """Return 201 for an entry that this request wrote, 200 if an earlier one had."""
    return HTTPStatus.OK if entry.repeated else HTTPStatus.CREATED


async def _in_turn(context: Context, work: Portions[list[Entry]]) -> list[Entry]:
    """Return the result of a calculation of which one portion is done in a round, of all requests.

    Many bodies of full items may come at once.
    """
    while True:
        async with context.checking:
            await let_others_go_on()
            try:
                next(work)
            except StopIteration as ended:
                return cast("list[Entry]", ended.value)


def _all_proved(entries: Iterable[Entry]) -> Portions[list[Entry]]:
    """Return entries that their writer repeats; others go on between portions.

    Raises:
        InvalidEntry, Refused: as `_proved`.
    """
    proved: list[Entry] = []
    for entry in entries:
        if len(proved) % PROOFS_AT_ONCE == 0:
            yield
        proved.append(_proved(entry))
    return proved


def _proved(entry: Entry) -> Entry:
    """Return an entry that its writer repeats.

    Raises:
        InvalidEntry: it is not one of its parts, or a part without them.
        Refused: its key shows no such thing.
    """
    if is_proved(whole_of(entry)):
        return entry
    raise CallRefused(
        NOT_PROVED, f"entry {entry.id!r:.100} of {entry.counter!r:.100} has another key"
    )
