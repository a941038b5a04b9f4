"""Errors as problem details (RFC 9457): which status, type and title each error of the tree has.

One table serves the service, which sends a problem for an error; its page of each problem; and the
client, which raises the error again that the service had. `type` is a path of the service, where
its page is found.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from ledger.core import amounts, errors
from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.http.wire.schemas import EntryModel, ProblemModel, ProvedEntryModel

MEDIA_TYPE = "application/problem+json"
TYPES = "/problems/"
"""The path under which the service shows a page for each type."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: the last part of its `type`, its status, and what its page says."""

    name: str
    status: HTTPStatus
    title: str
    advice: str

    @property
    def type(self) -> str:
        """The URI reference that names it."""
        return f"{TYPES}{self.name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its kind, what happened, and members of its own."""

    kind: Kind
    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        kind = self.kind
        return {
            "type": kind.type,
            "title": kind.title,
            "status": int(kind.status),
            "detail": self.detail,
            **self.members,
        }


INVALID = Kind(
    "invalid-request",
    HTTPStatus.BAD_REQUEST,
    "The request breaks a rule",
    "Nothing was written. `detail` names the value and the rule; the same request fails again.",
)
UNAUTHORIZED = Kind(
    "unauthorized",
    HTTPStatus.UNAUTHORIZED,
    "No valid token",
    "Send `Authorization: Bearer TOKEN` with a token that `ledger token create` made. A token that"
    " expired or was revoked is refused in the same words.",
)
FORBIDDEN = Kind(
    "forbidden",
    HTTPStatus.FORBIDDEN,
    "The token does not allow this",
    "`detail` names the scope or the prefix of counters that the token lacks.",
)
NOT_FOUND = Kind(
    "not-found",
    HTTPStatus.NOT_FOUND,
    "There is no such resource",
    "`/openapi.json` has all paths; none ends in a slash, but that of the page.",
)
METHOD_NOT_ALLOWED = Kind(
    "method-not-allowed",
    HTTPStatus.METHOD_NOT_ALLOWED,
    "The resource has no such method",
    "The Allow header lists those that it has.",
)
NOT_ACCEPTABLE_BODY = Kind(
    "unsupported-media-type",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "The body must be application/json",
    "Send `Content-Type: application/json`, and no Content-Encoding.",
)
MISDIRECTED = Kind(
    "misdirected",
    HTTPStatus.MISDIRECTED_REQUEST,
    "The request is for another host",
    "A service without tokens (`--insecure`) answers to localhost, 127.0.0.1 and [::1] alone, as"
    " Host and, if it is sent, as Origin, so that no page of another site can reach it through a"
    " browser. Use one of them, or tokens.",
)
NOT_PROVED = Kind(
    "not-proved",
    HTTPStatus.FORBIDDEN,
    "The key is not that of the entry",
    "Nothing was written. The id of an entry follows from a key that only its writer knows, so"
    " `POST /v1/retries` takes an entry with the `key` that it has in `entries` of the"
    " `outcome-unknown` problem, and with nothing of it changed.",
)
TOO_LARGE = Kind(
    "too-large",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "The body is too large",
    "Nothing was written. A body of `/v1/entries` and `/v1/retries` may have 1 MB, any other 64 KB:"
    " send fewer entries at a time, and shorter notes.",
)
HEAD_TOO_LARGE = Kind(
    "head-too-large",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "The head of the request is too large",
    "Nothing was written. Send fewer and shorter headers, and ask for fewer ids at a time.",
)
TOO_SLOW = Kind(
    "request-too-slow",
    HTTPStatus.REQUEST_TIMEOUT,
    "The request did not come to its end in time",
    "Nothing was written. Repeat the request.",
)
OVERLOADED = Kind(
    "overloaded",
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Too many requests are under way",
    "Nothing was written. Repeat the request after Retry-After seconds. Those of one address are"
    " bounded by `--connections-per-address`.",
)
TOO_MANY_REQUESTS = Kind(
    "too-many-requests",
    HTTPStatus.TOO_MANY_REQUESTS,
    "The token's rate, or its number of requests at a time, is exceeded",
    "Nothing was written. Repeat the request after Retry-After seconds.",
)
SHUTTING_DOWN = Kind(
    "shutting-down",
    HTTPStatus.SERVICE_UNAVAILABLE,
    "This instance is shutting down",
    "Nothing was written. Repeat the request: another instance takes it.",
)
NOT_READY = Kind(
    "not-ready",
    HTTPStatus.SERVICE_UNAVAILABLE,
    "This instance takes no requests",
    "`detail` says what it lacks; its log says why. Another instance takes the requests meanwhile.",
)
DEFECT = Kind(
    "internal-error",
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "A defect of the service",
    "Whether the change was made is not known. With an Idempotency-Key the request may be repeated."
    " The service's log has the request's id.",
)
_OF_SERVICE = (
    INVALID,
    UNAUTHORIZED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    NOT_ACCEPTABLE_BODY,
    MISDIRECTED,
    NOT_PROVED,
    TOO_LARGE,
    HEAD_TOO_LARGE,
    TOO_SLOW,
    OVERLOADED,
    TOO_MANY_REQUESTS,
    SHUTTING_DOWN,
    NOT_READY,
    DEFECT,
)

_AGAIN = "Repeat the request after a moment."
_OPERATOR = "Nothing that a caller can mend: the operator of the service has to look."
_KINDS: Mapping[type[LedgerError], Kind] = MappingProxyType(
    {
        errors.InvalidAmount: Kind(
            "invalid-amount",
            HTTPStatus.BAD_REQUEST,
            "Not an exact amount",
            "Nothing was written. Amounts are strings of decimal numbers of up to 38 digits.",
        ),
        errors.AmountOverflow: Kind(
            "amount-overflow",
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "The amount, or the sum, is beyond 38 digits",
            "Nothing was written. A total that does not fit has a change that is far too large or"
            " too fine: the counter's `/entries` show it, and a reversal takes it back.",
        ),
        errors.InvalidCounter: Kind(
            "invalid-counter",
            HTTPStatus.BAD_REQUEST,
            "Not a counter id",
            "Nothing was written. A counter id is text in normal form C (NFC) without control or"
            " invisible characters; in a path its slashes and other reserved characters are"
            " percent-encoded.",
        ),
        errors.InvalidEntry: Kind(
            "invalid-entry",
            HTTPStatus.BAD_REQUEST,
            "A key, time, note or size of an entry breaks a rule",
            "Nothing was written.",
        ),
        errors.UntimedKey: Kind(
            "idempotency-key",
            HTTPStatus.BAD_REQUEST,
            "The Idempotency-Key carries no time",
            "Nothing was written. Send a UUIDv7 or a ULID, chosen once for the change and kept for"
            " every try, or send the time that was chosen with the key as Idempotency-Time (RFC"
            " 3339, with a zone). A key without a time could count a change twice, once its entry"
            " is merged.",
        ),
        errors.Unbalanced: Kind(
            "unbalanced",
            HTTPStatus.BAD_REQUEST,
            "The legs of a transfer do not sum to 0",
            "Nothing was written. `detail` names the asset, and what its legs come to.",
        ),
        errors.BookFull: Kind(
            "book-full",
            HTTPStatus.CONFLICT,
            "The book has no room for another account",
            "Nothing was written. Transfers between accounts that have a balance go on.",
        ),
        errors.StateConflict: Kind(
            "state-conflict",
            HTTPStatus.CONFLICT,
            "The state of what it is about does not allow it",
            "This request wrote nothing. `detail` says what is in the way; an `outcome` of unknown"
            " that an earlier one may have done what is asked.",
        ),
        errors.MethodConflict: Kind(
            "method-conflict",
            HTTPStatus.CONFLICT,
            "The table keeps this counter by another method",
            "Nothing was written.",
        ),
        errors.RegionConflict: Kind(
            "region-conflict",
            HTTPStatus.CONFLICT,
            "Another region writes this counter",
            "Nothing was written.",
        ),
        errors.NeverApplied: Kind(
            "never-applied",
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Too late to apply, and it never was applied",
            "By the archive no try of this change was applied, in any region, and none will be. A"
            " new key is safe.",
        ),
        errors.RetryHorizonPassed: Kind(
            "retry-horizon-passed",
            HTTPStatus.GONE,
            "Too late to tell whether it was applied",
            "Nothing was written by this request. Whether an earlier one was applied can no longer"
            " be told: compare with `/entries` of the counter before the change is made again under"
            " a new key.",
        ),
        errors.KeyConflict: Kind(
            "key-conflict",
            HTTPStatus.CONFLICT,
            "The key already stands for another change",
            "Nothing was written. `ours` is the change that was refused, `theirs` the one in the"
            " table; null for a token that may not read the counter.",
        ),
        errors.OutcomeUnknown: Kind(
            "outcome-unknown",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "Not known whether the change was made",
            "The change may or may not be in the table. Repeat the request if `retryable` is true;"
            " else send `entries`, each with its `key`, and `parts` if it has any, to `POST"
            " /v1/retries`. Either counts the change once, until the retry horizon (5 minutes by"
            " default) has passed.",
        ),
        errors.NotSent: Kind(
            "not-sent",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The deadline ended before anything was sent",
            f"Nothing was written, and nothing will be. {_AGAIN}",
        ),
        errors.ReadTooSlow: Kind(
            "read-too-slow",
            HTTPStatus.GATEWAY_TIMEOUT,
            "Not read within the deadline",
            _AGAIN,
        ),
        errors.FeedBehind: Kind(
            "feed-behind",
            HTTPStatus.GONE,
            "What follows the cursor is no longer in the stream",
            "A cursor holds for 23 hours, since the table's stream has 24, and is of one region's"
            " stream. Read the histories of the counters (`/v1/counters/{id}/entries`) from the"
            " time up to which you have everything, and begin the feed by `since`.",
        ),
        errors.NetVanished: Kind(
            "net-vanished",
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "What was merged is no longer in the table",
            _OPERATOR,
        ),
        errors.DamagedItem: Kind(
            "damaged-item",
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "An item of the table cannot be counted",
            f"No total is returned that would be wrong. {_OPERATOR}",
        ),
        errors.BudgetExceeded: Kind(
            "budget-exceeded",
            HTTPStatus.CONFLICT,
            "The budget has less than is wanted",
            "Nothing was spent. `budget` is the limit that refused `wanted`; it has `here` left in"
            " this region, and `elsewhere` as this region shows the others. The same request may be"
            " granted later: once the limit is raised, a hold is given back, or a region is reached"
            " again; if it is `crowded`, once some of the region's many grants are closed.",
        ),
        errors.BudgetMissing: Kind(
            "budget-missing",
            HTTPStatus.NOT_FOUND,
            "The counter has no limit, as far as this region shows",
            "Nothing was spent. `PUT /v1/budgets/{counter}` makes one, for a counter that a pattern"
            " of the contract's `budgets` has.",
        ),
        errors.BudgetUndecided: Kind(
            "budget-undecided",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "A limit of this window is announced, and not in force yet",
            f"Nothing was spent. {_AGAIN}",
        ),
        errors.ContractChangeRefused: Kind(
            "contract-change",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "A change of the table's contract is pending",
            "Nothing was written. Repeat the request once the change is in force.",
        ),
        errors.ArchiveError: Kind(
            "archive",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The archive cannot be read",
            _AGAIN,
        ),
        errors.Throttled: Kind(
            "throttled",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "DynamoDB throttles the table",
            f"Nothing was written. {_AGAIN}",
        ),
        errors.Unreachable: Kind(
            "unreachable",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The region's table does not answer",
            f"Nothing was written. {_AGAIN}",
        ),
        errors.ClockOff: Kind(
            "clock-off",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The clock of this instance is off",
            f"Nothing was written. Another instance may do it. {_OPERATOR}",
        ),
        errors.AccessDenied: Kind(
            "access-denied",
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "AWS refuses the service's credentials",
            f"Nothing was written. {_OPERATOR}",
        ),
        errors.StoreError: Kind(
            "store",
            HTTPStatus.SERVICE_UNAVAILABLE,
            "DynamoDB did not do it",
            f"Nothing was written. {_AGAIN}",
        ),
        errors.InvalidInput: INVALID,
        errors.LedgerError: Kind(
            "ledger",
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "The ledger cannot do it",
            _OPERATOR,
        ),
    }
)

KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: kind for kind in (*_OF_SERVICE, *_KINDS.values())}
)
"""All kinds by name."""
_ERRORS: Mapping[str, type[LedgerError]] = MappingProxyType(
    {kind.name: error for error, kind in _KINDS.items()}
)


def kind_of(error: LedgerError) -> Kind:
    """Return the kind of an error: of its class, or of the nearest above it."""
    return next(_KINDS[base] for base in type(error).__mro__ if base in _KINDS)


def problem_of(error: LedgerError) -> Problem:
    """Return an error as a problem: `outcome`, `retryable`, and the entries that it carries."""
    members: dict[str, Any] = {"outcome": error.outcome, "retryable": error.retryable}
    kind = kind_of(error)
    match error:
        case errors.OutcomeUnknown():
            members["entries"] = list(map(ProvedEntryModel.fields_of, error.entries))
            members["together"] = error.together
        case errors.KeyConflict():
            members["ours"] = EntryModel.fields_of(error.ours)
            members["theirs"] = error.theirs and EntryModel.fields_of(error.theirs)
        case errors.RetryHorizonPassed():
            members["entry"] = error.entry and EntryModel.fields_of(error.entry)
        case errors.Throttled():
            members["limits"], members["counters"] = list(error.limits), list(error.counters)
        case errors.ClockOff():
            members["region"], members["offset_seconds"] = error.region, error.offset_seconds
        case errors.BudgetExceeded():
            members.update(error.members)
        case errors.ArchiveError():
            members["reason"] = error.reason
        case _:
            pass
    return Problem(kind, str(error), members)


def error_of(problem: ProblemModel) -> LedgerError:
    """Return the error that a problem stands for, as the library raises it.

    A problem of the service itself, or of a kind that this release does not know, is a
    `LedgerError` with its `outcome` and `retryable`.
    """
    name = problem.type.rpartition("/")[2]
    detail = problem.detail or problem.title or "the service gave no reason"
    kind = _ERRORS.get(name, _KINDS_OF_SERVICE.get(name, LedgerError))
    try:
        error = _made(kind, detail, problem.members)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        # A problem that lacks what its kind carries says nothing else for certain, either.
        error = LedgerError(detail)
        error.outcome = "unknown"
        return error
    error.outcome, error.retryable = problem.outcome, problem.retryable
    return error


def _made(kind: type[LedgerError], detail: str, fields: Mapping[str, Any]) -> LedgerError:
    """Return an error of a class, with what it carries."""
    if kind is errors.OutcomeUnknown:
        entries = [_entry(ProvedEntryModel, entry) for entry in fields.get("entries", ())]
        return errors.OutcomeUnknown(detail, entries=entries, together=bool(fields.get("together")))
    if kind is errors.KeyConflict:
        theirs = fields["theirs"] and _entry(EntryModel, fields["theirs"])
        return errors.KeyConflict(detail, ours=_entry(EntryModel, fields["ours"]), theirs=theirs)
    if issubclass(kind, errors.RetryHorizonPassed):
        entry = fields.get("entry")
        return kind(detail, entry=entry and _entry(EntryModel, entry))
    if kind is errors.ClockOff:
        offset = float(fields.get("offset_seconds", 0.0))
        return errors.ClockOff(detail, region=str(fields.get("region", "")), offset_seconds=offset)
    if kind is errors.ArchiveError:
        return errors.ArchiveError(detail, reason=str(fields.get("reason", "")))
    error = kind(detail)
    if isinstance(error, errors.BudgetExceeded):
        error.members = {name: fields[name] for name in _OF_REFUSAL}
        for name in ("wanted", "here", "elsewhere"):
            amounts.of_text(fields[name])
    if isinstance(error, errors.Throttled):
        error.limits = tuple(fields.get("limits", ()))
        error.counters = tuple(fields.get("counters", ()))
    return error


def _entry(form: type[EntryModel], fields: object) -> Entry:
    return form.model_validate(fields, extra="ignore").to_value()


_OF_REFUSAL = ("budget", "wanted", "here", "elsewhere", "crowded")
_KINDS_OF_SERVICE: Mapping[str, type[LedgerError]] = MappingProxyType(
    {
        INVALID.name: errors.InvalidInput,
        UNAUTHORIZED.name: errors.AccessDenied,
        FORBIDDEN.name: errors.AccessDenied,
        MISDIRECTED.name: errors.AccessDenied,
        NOT_PROVED.name: errors.InvalidEntry,
        TOO_LARGE.name: errors.InvalidInput,
        HEAD_TOO_LARGE.name: errors.InvalidInput,
        TOO_SLOW.name: errors.NotSent,
        OVERLOADED.name: errors.NotSent,
        TOO_MANY_REQUESTS.name: errors.Throttled,
        SHUTTING_DOWN.name: errors.NotSent,
    }
)
