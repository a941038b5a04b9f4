"""The groups of the settings and the types of their values; `model` combines them.

Durations are in seconds: a number, or text such as "250ms", "20s", "15m", "5h", "1d".
"""

import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ledger.core import amounts
from ledger.core.entry import ITEM_BYTES_MAX
from ledger.core.errors import InvalidInput
from ledger.core.ids import PACKED_BYTES
from ledger.core.watches import NAME_BYTES_MAX, Watch
from ledger.settings.sources import (
    CONSTANT,
    Broken,
    Sources,
    problems_of,
    raise_broken,
    settings_error,
)

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as ModelType
else:
    ModelType = type(BaseModel)

MERGED_ID_BYTES = PACKED_BYTES
"""One id in the net change's `merged`: 8 bytes of microseconds, 8 of suffix."""
NET_REST_BYTES_MAX = 4 * 1024
"""More than all else in a net change can take: keys of 1,040 bytes, two numbers, names, ids."""
FOLD_MAX_LIMIT = 25_000
"""The largest `fold_max`: its packed ids and the rest stay under the limit of an item."""
SHARDS_MAX = 100
"""The most shards of a counter: a total costs at least one query for each of them."""
READ_KEYS_MAX = 50_000
"""The default of `read_keys_max`: sort keys and amounts of about 10 MB."""
WATCHES_MAX = 100
"""The most watches in the settings: every total read is compared with each that matches."""
SCAN_SEGMENTS_MAX = 1_000
"""The most segments of the compactor's scan: each is a request in flight and a stored cursor."""

LINGER_SECONDS_MAX = 1.0
"""A change that waits for others longer than for DynamoDB itself gains nothing by it."""

AWS_DOMAINS = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "amazonwebservices.com.cn",
    "amazonwebservices.eu",
    "api.aws",
    "on.aws",
)
"""The suffixes of AWS's endpoints, including interface endpoints (VPC).

Source: the partitions of botocore (`data/partitions.json`: `dnsSuffix`, `dualStackDnsSuffix`).
"""

_UNIT_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|h|d|)")
_TABLE_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
SECONDS_MAX = 36_525 * 86_400.0
"""The longest duration, 100 years: dates and timers have limits."""
_LONGEST_RULE = "a duration is at most 36525d (100 years)"
_DURATION_RULE = 'a duration is 0 or more seconds, or text such as "250ms", "20s", "15m", "1d"'


def rule(message: str) -> PydanticCustomError:
    """Return the error of a broken rule, with one line for the user."""
    # The message is data, not a template: braces in a value must not be read as fields.
    return PydanticCustomError("rule", "{message}", {"message": message})


def table_name(name: str) -> str:
    """Return the name of a table, if DynamoDB accepts it as one."""
    if not _TABLE_NAME.fullmatch(name):
        raise rule("a table name is 3 to 255 of the characters a-z A-Z 0-9 _ . -")
    return name


def constant(value: int) -> Any:
    """Return a field that neither a file nor a variable can set.

    An operator cannot judge such a bound, so it is a constant of the release. It stays a field
    because the simulator, the benchmarks and the tests vary it, in code.
    """
    return Field(default=value, json_schema_extra={CONSTANT: True})


def _seconds(value: object) -> float:
    """Return a duration in seconds."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        value = float(match[1]) * _UNIT_SECONDS[match[2]]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise rule(_DURATION_RULE)
    try:
        seconds = float(value)
    except OverflowError:  # an int of hundreds of digits
        raise rule(_DURATION_RULE) from None
    if not math.isfinite(seconds) or seconds < 0:
        raise rule(_DURATION_RULE)
    if seconds > SECONDS_MAX:
        raise rule(_LONGEST_RULE)
    return seconds


def _no_boolean(value: object) -> object:
    # YAML reads `yes` as true, and pydantic would read true as 1.
    if isinstance(value, bool):
        raise rule("must be a whole number")
    return value


Seconds = Annotated[float, BeforeValidator(_seconds)]
PositiveSeconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
Count = Annotated[int, BeforeValidator(_no_boolean), Field(ge=1)]
CountOrNone = Annotated[int, BeforeValidator(_no_boolean), Field(ge=0)]


Made = TypeVar("Made")


class RefusingType(ModelType):
    """The type of groups: a group made in code that breaks a rule raises our error.

    In a mapping of settings the whole reports the place. Type checkers take any values by name for
    a group, since `settle="20m"` is read as 1,200 seconds; making the group checks them.
    """

    def __call__(self: type[Made], *args: Any, **given: Any) -> Made:
        """Make a group.

        Raises:
            SettingsError: a rule is broken; `problems` has all that were found.
        """
        try:
            return super().__call__(*args, **given)  # type: ignore[no-any-return, misc]
        except ValidationError as error:
            raise settings_error(
                problems_of(error, cast("type[BaseModel]", self)), Sources()
            ) from None


class Group(BaseModel, metaclass=RefusingType):
    """The base of all groups: frozen, and an unknown key is an error, not a silent default.

    Raises:
        SettingsError: a rule is broken.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})


class Region(Group):
    """How one region is reached; everything else is found as the AWS SDK finds it."""

    endpoint: str | None = None
    profile: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("endpoint")
    @classmethod
    def _is_endpoint(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not is_url(endpoint):
            raise rule("an endpoint is a URL such as http://127.0.0.1:8000")
        if endpoint is not None and urlsplit(endpoint).username is not None:
            raise rule("an endpoint has no user and password: requests are signed instead")
        return endpoint

    @property
    def is_aws(self) -> bool:
        """Whether requests go to AWS: by default, and to a VPC endpoint of AWS."""
        if self.endpoint is None:
            return True
        host = (urlsplit(self.endpoint).hostname or "").rstrip(".")
        return any(host.endswith(f".{domain}") for domain in AWS_DOMAINS)


def is_url(text: str) -> bool:
    """Return whether a text is the URL of a service."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and text.isprintable()


def same_endpoint(one: str, other: str) -> bool:
    """Return whether two URLs of services lead to the same place."""
    return _place(one) == _place(other)


def _place(url: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return url, 0, ""
    host = (parts.hostname or "").rstrip(".")
    return "localhost" if host in _THIS_MACHINE else host, port, parts.path.rstrip("/")


class CacheSettings(Group):
    """How long a total may be cached, and how many.

    With `incremental`, a read covers only what is younger than `settle`: older changes are a cached
    sum, valid as long as the net change stays as it is; everything is read when that changes.
    Correct only if no entry can still appear under an older id, which is assumed of a table that
    has a single region, is written only by the ledger (no other tool, no restored items, no
    entry deleted by hand), and is read strongly consistent: a write is signed within
    `retry_horizon` and lands within `signature_lifetime`, both shorter than `settle`. From another
    region an entry may arrive at any age, and nothing in the table shows that none is under way.
    """

    max_age: Seconds = 1.0
    counters_max: Count = 10_000
    stale_max: Seconds = 0.0
    incremental: bool = False


class WriterSettings(Group):
    """How concurrent changes share requests; see `ledger.writes.group_commit`.

    With `strict`, entries are put only by INSERT statements, which is all that the policy of a
    strict writer allows; see `ledger.writes.insert_store`.
    """

    linger: Annotated[Seconds, Field(le=LINGER_SECONDS_MAX)] = 0.002
    in_flight: Count = constant(8)
    queue_max: Count = 10_000
    strict: bool = False


class SignatureSettings(Group):
    """Signatures of net changes: where the keys are, and whether one is required.

    See `ledger.core.signatures`. `keys` is a file of keys, which compactors and readers hold, and
    writers do not; `keys_env` names an environment variable with the same lines instead.
    """

    keys: Annotated[str, Field(min_length=1)] | None = None
    keys_env: Annotated[str, Field(min_length=1)] | None = None
    required: bool = False

    @property
    def are_made(self) -> bool:
        """Whether there are keys by which net changes are signed and checked."""
        return self.keys is not None or self.keys_env is not None

    @model_validator(mode="after")
    def _keys_are_named(self) -> Self:
        if self.keys is not None and self.keys_env is not None:
            raise rule("of signatures.keys and signatures.keys_env give one")
        if self.keys_env is not None and self.keys_env.upper().startswith("LEDGER_"):
            raise rule(
                f"signatures.keys_env must not begin with LEDGER_, as variables of settings do,"
                f" got {self.keys_env!r}"
            )
        if self.required and not self.are_made:
            raise rule(
                "signatures.required needs signatures.keys, a file of keys to check them by, or"
                " signatures.keys_env"
            )
        return self


HEARTBEAT_SECONDS_MAX = 10.0
HEARTBEATS_OF_A_LEASE = 3


def _heartbeat(values: Mapping[str, Any]) -> float:
    """Return the heartbeat that follows from the lease: three fit into one lease."""
    return float(min(HEARTBEAT_SECONDS_MAX, values["lease"] / HEARTBEATS_OF_A_LEASE))


SLICES_MAX = 64
"""All of them, plus a check for each of half as many members, fit into one transaction."""


class CompactorSettings(Group):
    """When and how much the compactor merges."""

    name: Annotated[str, Field(min_length=1, max_length=255)] = "compactor"
    lease: PositiveSeconds = 30.0
    heartbeat: PositiveSeconds = Field(default_factory=_heartbeat)
    fold_max: Count = 10_000
    fold_min: Count = 20
    fold_age: Seconds = 86_400.0
    prune_min: Count = constant(50)
    scan_segments: Annotated[Count, Field(le=SCAN_SEGMENTS_MAX)] = constant(4)
    scan_pages_max: Count = constant(1_000)
    scan_every: Seconds = 3_600.0
    hint_every: CountOrNone = constant(100)
    pending_max: Count = constant(5_000)
    visits_max: Count = constant(4)
    concurrency: Count = constant(16)
    slices: Annotated[Count, Field(le=SLICES_MAX)] = constant(64)

    @field_validator("fold_max")
    @classmethod
    def _fits_an_item(cls, fold_max: int) -> int:
        if fold_max > FOLD_MAX_LIMIT:
            raise rule(
                f"at most {FOLD_MAX_LIMIT}, so that the net change, {MERGED_ID_BYTES} bytes for "
                f"each merged id, stays under DynamoDB's {ITEM_BYTES_MAX // 1024} KB per item"
            )
        return fold_max

    @model_validator(mode="after")
    def _relations_hold(self) -> Self:
        raise_broken(tuple(_compactor_relations(self)))
        return self


def _compactor_relations(compactor: CompactorSettings) -> Iterator[Broken]:
    if compactor.lease < 2 * compactor.heartbeat:
        yield Broken(
            ("lease", "heartbeat"),
            f"compactor.lease ({compactor.lease:g} s) must be at least twice compactor.heartbeat "
            f"({compactor.heartbeat:g} s): one lost heartbeat must not cost the lease",
        )
    if compactor.fold_min > compactor.fold_max:
        yield Broken(
            ("fold_min", "fold_max"),
            f"compactor.fold_min ({compactor.fold_min}) must not exceed compactor.fold_max "
            f"({compactor.fold_max}): a fold would never be large enough to begin",
        )


def _bound(value: object) -> object:
    """Return the amount of a bound; a float has lost the decimal that was written."""
    if isinstance(value, float):
        raise rule(f'a bound is a whole number or text such as "9.99", got the float {value!r}')
    try:
        return amounts.parse(value) if isinstance(value, str) else amounts.exact(value)
    except InvalidInput as error:
        raise rule(str(error)) from None


Bound = Annotated[Decimal, BeforeValidator(_bound)]


class WatchSettings(Group):
    """A bound on the totals of the counters of a pattern; see docs/howto/react-to-changes.md."""

    counters: Annotated[str, Field(min_length=1, max_length=NAME_BYTES_MAX)]
    """The pattern of the counters."""
    below: Bound | None = None
    """A total less than this crosses the watch."""
    above: Bound | None = None
    """A total greater than this crosses the watch, which has this bound or `below`."""
    rearm: Bound | None = None
    """The next crossing is told after the total was here; by default the bound itself."""

    @model_validator(mode="after")
    def _is_a_watch(self) -> Self:
        try:
            self.named("watch")
        except InvalidInput as error:
            raise rule(str(error)) from None
        return self

    def named(self, name: str) -> Watch:
        """Return the watch under its name."""
        return Watch.of(name, self.counters, below=self.below, above=self.above, rearm=self.rearm)


class ShardStep(Group):
    """A number of shards of a counter, and from when on; a number alone is a step for all time."""

    count: Annotated[Count, Field(le=SHARDS_MAX)]
    """How many shards the counter's changes may use; no fewer than in the step before."""
    since: AwareDatetime | None = None
    """From when on; every step but the first has a time, later than the step before."""


def _as_steps(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return value
    return ({"count": value},)


def _steps_ascend(steps: tuple[ShardStep, ...]) -> tuple[ShardStep, ...]:
    if not steps or steps[0].since is not None:
        raise rule("the first step has no `since`, so that every time has a number of shards")
    for before, after in pairwise(steps):
        if after.since is None:
            raise rule("every step but the first needs `since`")
        if before.since is not None and after.since <= before.since:
            raise rule(f"`since` must ascend: {after.since} comes after {before.since}")
        if after.count < before.count:
            raise rule(
                f"the count falls from {before.count} to {after.count}: it may only grow, "
                "or readers would no longer see the shards left behind"
            )
    return steps


ShardSteps = Annotated[
    tuple[ShardStep, ...], BeforeValidator(_as_steps), AfterValidator(_steps_ascend)
]


WatchName = Annotated[str, Field(min_length=1, max_length=NAME_BYTES_MAX)]
Watches = Annotated[dict[WatchName, WatchSettings], Field(max_length=WATCHES_MAX)]
