"""The table's contract as operators handle it: written, shown, changed by name and value.

A value is given as in a settings file. A change that breaks a rule is refused before anything is
announced; the rules are those of the settings.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import anyio

from ledger.contract.contract_writer import ContractWriter
from ledger.contract.view import read_contract
from ledger.contract.wait_report import Report, Waiting
from ledger.core.contract import DURATIONS, ShardRule, Shards, Terms
from ledger.core.contract_item import Contract, newest_of
from ledger.core.errors import InvalidInput, LedgerError, StateConflict
from ledger.runtime.clock import Clock, SystemClock
from ledger.settings import Settings
from ledger.settings.fields import parse_duration
from ledger.settings.model import CONTRACTED, contracted
from ledger.store.connections import open_store, open_stores

_LISTS = frozenset({"unmerged", "combine", "archive", "index", "books"})
"""Terms that are lists, given separated by commas."""
_RULES = {
    "periods": "usage/*=hours:72,days:62,months:120,zone:Europe/Berlin",
    "budgets": "key/*=window:day,zone:Europe/Berlin,late:1h",
}
"""Terms by pattern, each with an example."""
LOOK_SECONDS = 5.0
"""Time limit of a look at the contract after an interrupt."""
SHARDS_AHEAD = timedelta(days=1)
"""How far in the future a step of shards is dated, unless the operator gives a date."""


def _ignore(_waiting: Waiting) -> None:
    """Do nothing."""


@asynccontextmanager
async def contract_writer(
    settings: Settings, *, clock: Clock | None = None, report: Report = _ignore
) -> AsyncIterator[ContractWriter]:
    """Open every region of the settings, and of the contract, to read and write the contract.

    Raises:
        SettingsError, AccessDenied: as for `open_stores`.
        ContractConflict: the settings do not say how a region of the contract is reached.
        And as `ContractWriter.read_all`.
    """
    clock = clock or SystemClock()
    async with open_stores(settings, clock=clock) as stores:
        found = await ContractWriter(stores, clock=clock).read_all()
        named = {
            region
            for contract in found.values()
            if contract is not None
            for region in contract.regions
        }
        async with open_stores(_reaching(settings, named), named - {*stores}, clock=clock) as more:
            yield ContractWriter({**stores, **more}, clock=clock, report=report)


def _reaching(settings: Settings, regions: Iterable[str]) -> Settings:
    """Return settings that reach these regions too."""
    more = {region: settings.reach(region) for region in regions}
    return settings.replace(regions={**settings.regions, **more})


async def establish(
    settings: Settings, *, clock: Clock | None = None, report: Report = _ignore
) -> Contract:
    """Write the table's first contract from the settings, unless it has one that they agree with.

    Returns the contract that all regions show, or one whose change is pending.

    Raises:
        ContractConflict: it has one that differs from the settings.
        StoreError: DynamoDB could not do it; repeat the call.
    """
    async with contract_writer(settings, clock=clock, report=report) as writer:
        found = await writer.find()
        if found is None:
            return await writer.establish(settings.terms)
        settings.check_agrees(*found.accepted)
        is_pending = found.coming is not None and not found.is_founding
        return found if is_pending else await writer.finish(found)


def first_values(given: Sequence[str]) -> dict[str, Any]:
    """Return settings from NAME=VALUE: values of a first contract, other than those of the file.

    Raises:
        InvalidInput: it is not NAME=VALUE, or names what a contract does not hold.
    """
    values: dict[str, Any] = {}
    for each in given:
        name, found, value = each.partition("=")
        if not found or name not in CONTRACTED:
            raise InvalidInput(
                f"--set must be NAME=VALUE, with one of {', '.join(CONTRACTED)}; got {each!r}"
            )
        if name == "shards":
            pattern, count = _pattern_and_count(value)
            values.setdefault(name, {})[pattern] = count
        elif name in _RULES:
            pattern, rule = _pattern_and_rule(name, value)
            values.setdefault(name, {})[pattern] = rule
        elif name in _LISTS:
            values[name] = _patterns(value)
        else:
            values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class ContractListing:
    """The contract as each region shows it: None without one, an error if it cannot be read."""

    table: str
    regions: Mapping[str, Contract | LedgerError | None]

    @property
    def newest(self) -> Contract | None:
        """The newest that any region shows."""
        return newest_of(self.regions.values())

    @property
    def behind(self) -> tuple[str, ...]:
        """The regions that do not show the newest one."""
        return tuple(region for region, each in self.regions.items() if each != self.newest)


async def show(settings: Settings, *, clock: Clock | None = None) -> ContractListing:
    """Read the contract in every region of the settings and of the contract."""
    clock = clock or SystemClock()
    found: dict[str, Contract | LedgerError | None] = {}
    waiting = list(settings.regions)
    while waiting:
        region = waiting.pop(0)
        shown = found[region] = await _shown_in(settings, region, clock)
        if isinstance(shown, Contract):
            waiting += [other for other in shown.regions if other not in {*found, *waiting}]
    return ContractListing(settings.table, found)


async def _shown_in(settings: Settings, region: str, clock: Clock) -> Contract | LedgerError | None:
    try:
        async with open_store(_reaching(settings, [region]), region, clock=clock) as store:
            return await read_contract(store)
    except LedgerError as error:
        return error


async def left_behind(settings: Settings) -> str:
    """Return the state that an interrupted change of the contract left, if it can be read."""
    contract = None
    with anyio.move_on_after(LOOK_SECONDS):
        contract = (await show(settings)).newest
    if contract is None:
        return "`ledger table show` says whether a change of the contract is pending"
    if contract.coming is None:
        return f"nothing is pending, revision {contract.revision} of the contract is in force"
    return (
        f"revision {contract.revision} of the contract is announced and pending: the same command"
        " again finishes it, `ledger table set --withdraw` withdraws it"
    )


async def change(
    settings: Settings,
    name: str,
    value: str,
    *,
    since: datetime | None = None,
    clock: Clock | None = None,
    report: Report = _ignore,
) -> Contract:
    """Change one value of the contract, given as for `refined`; returns what is in force then.

    Takes 21 minutes by default. If interrupted, run it again, on any machine.

    Raises:
        InvalidInput, StateConflict, SettingsError: as `refined`; nothing was changed.
        ContractChangeRefused: another change is pending.
        ClockOff: this machine's clock is off by more than `clock_skew`.
        And as `contract_writer`.
    """
    clock = clock or SystemClock()
    async with contract_writer(settings, clock=clock, report=report) as writer:
        wanted = partial(
            refined, name=name, value=value, settings=settings, now=clock.now(), since=since
        )
        return await writer.change(wanted)


def refined(
    contract: Contract,
    name: str,
    value: str,
    *,
    settings: Settings,
    now: datetime,
    since: datetime | None = None,
) -> Terms:
    """Return the terms of a contract with one value changed.

    `value` is a duration, a region (home), regions, patterns or URLs separated by commas (regions,
    unmerged, combine, archive, index, books), PATTERN=COUNT (shards), dated `since`, or
    PATTERN=NAME:VALUE,... (periods, budgets), each with a default; `PATTERN=` takes a rule of
    periods back.

    Raises:
        InvalidInput: there is no such value in a contract.
        StateConflict: what is there depends on a rule that the value would change.
        SettingsError: the new terms break a rule; see the message.
    """
    terms = contract.terms
    new: Any
    if name in DURATIONS:
        new = parse_duration(value)
    elif name == "home":
        new = value
    elif name == "regions":
        new = tuple(part.strip() for part in value.split(","))
    elif name == "shards":
        new = _with_step(contract, value, since=since, now=now)
    elif name in _RULES:
        new = _with_rule(name, terms, value)
    elif name in _LISTS:
        new = _patterns(value)
    else:
        raise InvalidInput(
            f"what can be set in the contract is {', '.join((*CONTRACTED, 'regions'))};"
            f" got {name!r}"
        )
    changed = terms if name in _RULES else replace(terms, **{name: new})
    values = contracted(changed)
    if name in _RULES:
        values[name] = new
    # The rules between the values are those of the settings.
    reach = {region: settings.reach(region) for region in changed.regions}
    checked = Settings(table=settings.table, regions=reach, **values).terms
    _check_spans(terms, checked)
    if missing := [pattern for pattern in terms.books if pattern not in checked.books]:
        raise StateConflict(
            f"books keep the pattern {missing[0]!r}, which has transfers for good: name all of"
            f" {', '.join(terms.books)}, and more"
        )
    return checked


def _with_step(contract: Contract, value: str, *, since: datetime | None, now: datetime) -> Shards:
    pattern, count = _pattern_and_count(value)
    shards = contract.terms.shards
    steps = shards.get(pattern, (ShardRule(1),))
    # Run again without a date, the command means the step that it announced.
    *_before, last = contract.coming.shards.get(pattern, steps) if contract.coming else steps
    if since is None and last not in steps and last.count == count:
        since = last.since
    _check_effective("shards", pattern, shards)  # a new one goes last
    return {**shards, pattern: (*steps, ShardRule(count, since or now + SHARDS_AHEAD))}


def _with_rule(name: str, terms: Terms, value: str) -> dict[str, Mapping[str, object]]:
    pattern, given = _pattern_and_rule(name, value)
    rules: dict[str, Mapping[str, object]] = {
        each: asdict(rule) for each, rule in getattr(terms, name).items()
    }
    if given is None:
        if pattern not in rules:
            raise StateConflict(f"{name} have no rule for {pattern!r} to remove")
        if name == "budgets":
            raise StateConflict(
                f"budgets keep the rule of {pattern!r}: entries may name grants under it for good;"
                " lower the limits to 0 instead"
            )
        return {each: rule for each, rule in rules.items() if each != pattern}
    _check_effective(name, pattern, rules)
    return {**rules, pattern: given}


def _check_spans(terms: Terms, wanted: Terms) -> None:
    """Check that budgets keep the spans of time by which what was spent is counted.

    Raises:
        StateConflict: a pattern would have others.
    """
    for pattern, rule in terms.budgets.items():
        new = wanted.budgets[pattern]
        if rule.credits and not new.credits:
            raise StateConflict(
                f"budgets keep the credits of {pattern!r}: some may not be taken in yet, and"
                " amounts are checked by them"
            )
        for name in ("window", "rolling", "zone"):
            old, other = getattr(rule, name), getattr(new, name)
            if old != other and (name != "zone" or rule.window in {"day", "month"}):
                raise StateConflict(
                    f"budgets keep the {name} of {pattern!r}, which is {old}, got {other}: what was"
                    " spent is counted by it; make budgets of another pattern, and lower these"
                )


def _pattern_and_rule(name: str, value: str) -> tuple[str, Mapping[str, str] | None]:
    """Return a pattern and its rule; None if the rule is removed."""
    pattern, found, text = value.rpartition("=")
    parts = [part.partition(":") for part in text.split(",")] if text.strip() else []
    named = {name.strip(): value.strip() for name, _, value in parts}
    if not found or not pattern or len(named) < len(parts) or "" in {*named, *named.values()}:
        raise InvalidInput(
            f"{name} must be PATTERN=NAME:VALUE,..., each name once, such as {_RULES[name]},"
            f" got {value!r}"
        )
    if ":" in pattern.rpartition("=")[2] and "=" in pattern:
        raise InvalidInput(
            f"{name} are set one at a time, each by a call of its own; {pattern!r} would be one"
            f" pattern in {value!r}"
        )
    return pattern, named or None


def _check_effective(name: str, pattern: str, others: Iterable[str]) -> None:
    """Refuse a new pattern that would match nothing because an earlier one matches first.

    Raises:
        StateConflict: an earlier one matches the same counters.
    """
    others = list(others)
    before = next((other for other in others if fnmatchcase(pattern, other)), None)
    if pattern not in others and before is not None:
        raise StateConflict(
            f"{name} of {pattern!r} would have no effect: {before!r} comes before and matches the"
            " same counters"
        )


def _patterns(value: str) -> tuple[str, ...]:
    return tuple(part for word in value.split(",") if (part := word.strip()))


def _pattern_and_count(value: str) -> tuple[str, int]:
    pattern, found, count = value.rpartition("=")
    if not found or not pattern or not count.isdecimal():
        raise InvalidInput(f"shards must be PATTERN=COUNT, such as visits-*=8, got {value!r}")
    return pattern, int(count)
