"""`ledger budget`: limits that hold across regions, made, shown, changed and spent from."""

import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio
import typer

from ledger.budgets.budget import Budgets, Hold
from ledger.budgets.budget_state import BudgetState, explain_budget
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.spend_request import CROWDED, Credited, Granted, Refused
from ledger.commands.budget_recovery import AnyCounter, reclaim, recount
from ledger.commands.options import amount_of, iso_time
from ledger.commands.record import with_outcome
from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.values import Entry
from ledger.http.wire.schemas import EntryModel
from ledger.runtime.command_line import FAILED, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid
from ledger.runtime.output import print_json, say, utc_text
from ledger.settings.fields import parse_duration
from ledger.table import Table

app = new_app(about="Make, show, change and spend from limits that hold across regions.")

Counter = Annotated[str, typer.Argument(help="Counter of the budget.")]
Amount = Annotated[str, typer.Argument(help="Exact decimal number above 0, such as 3 or 2.50.")]
HoldId = Annotated[str, typer.Argument(help="Id of the hold, as `ledger budget hold` shows it.")]
_WEIGHT = partial(
    typer.Option,
    "--weight",
    metavar="REGION=N",
    help="In which parts regions share each window; repeatable.",
)
Weights = Annotated[list[str] | None, _WEIGHT(show_default="equal parts")]
NewWeights = Annotated[list[str] | None, _WEIGHT(show_default="as before")]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class SpendOptions:
    """The options of a command that spends or holds."""

    also: Annotated[
        list[str] | None,
        typer.Option(help="A wider budget to spend from as well, all or none; up to 19 times."),
    ] = None
    note: Annotated[str | None, typer.Option(help="Free text stored with the entry.")] = None
    key: Annotated[
        str | None,
        typer.Option(help="Key of your own, part of the entry's id; with --at, unless a UUIDv7."),
    ] = None
    at: Annotated[str | None, typer.Option(help="ISO time of the change, with a zone.")] = None
    wait: Annotated[
        str, typer.Option(help="How long rights that lie elsewhere are waited for.")
    ] = "0s"

    def arguments(self) -> dict[str, Any]:
        """Return what `Budgets.spend` and `Budgets.hold` take of them.

        Raises:
            InvalidEntry: the time is not an ISO time with a zone.
            InvalidInput: the wait is not a duration.
        """
        moment, seconds = iso_time("--at", self.at), _seconds("--wait", self.wait)
        return {"note": self.note, "key": self.key, "at": moment, "wait": seconds}

    def budgets(self, table: Table, counter: str) -> Budgets:
        """Return the budget of a counter, with those to spend from as well."""
        return table.budgets([counter, *self.also]) if self.also else table.budget(counter)


@app.command()
@spread_options
def create(
    counter: Counter,
    limit: Annotated[str, typer.Argument(help="Exact decimal number, 0 or more.")],
    *,
    raise_id: Annotated[
        str | None, typer.Option("--id", help="Name of the raise that this counts as.")
    ] = None,
    weights: Weights = None,
    common: RegionOptions,
) -> None:
    """Give a counter its limit, through home; safe to run again.

    With --id it counts as the raise of that id: a `ledger budget raise` by it adds nothing.

    The counter must match a pattern of the contract: `ledger table set budgets
    PATTERN=window:none`.
    """
    amount, shared = amount_of(limit), _weights(weights)

    async def call(table: Table) -> bool:
        return await table.budget(counter).create(amount, id=raise_id, weights=shared)

    is_new = _run(common, call)
    if common.as_json:
        print_json([{"budget": counter, "limit": amount, "created": is_new}])
        return
    if raise_id is not None and not is_new:
        say(f"budget {counter} had raise {raise_id} already, by {amounts.to_text(amount)}")
        return
    had = "is" if is_new else "was there already:"
    say(f"budget {counter} {had} limited to {amounts.to_text(amount)}")


@app.command()
@spread_options
def show(
    counter: AnyCounter = "",
    *,
    at: Annotated[str | None, typer.Option(help="ISO time in the window to show.")] = None,
    common: RegionOptions,
) -> None:
    """Show limit, charged, granted and free amounts of a budget, or of all budgets.

    For all the whole table is scanned: half a read unit is charged for every 4 KB of it. Credits
    that another process made and that cannot be spent yet are in no amount here.
    """
    moment = iso_time("--at", at)
    if moment is not None and not counter:
        raise InvalidInput(f"--at is of one budget, got {at} and no counter")

    async def call(table: Table) -> list[BudgetState]:
        if counter:
            return [await table.budget(counter).state(at=moment)]
        return [state async for state in table.all_budgets()]

    states = _run(common, call)
    if common.as_json:
        print_json(map(_fields, states))
    else:
        print_grid(_grid(states))


@app.command()
@spread_options
def explain(
    counter: Counter,
    *,
    at: Annotated[str | None, typer.Option(help="ISO time in the window to explain.")] = None,
    common: RegionOptions,
) -> None:
    """Explain where the amount of a budget is: by region, open grant and transfer.

    With what is stranded, and what a reclaim of each region would put at stake.
    """
    moment = iso_time("--at", at)
    state = _run(common, lambda table: table.budget(counter).state(at=moment))
    if common.as_json:
        print_json([_fields(state)])
        return
    for line in explain_budget(state):
        say(line)


@app.command("raise")
@spread_options
def raise_command(
    counter: Counter,
    amount: Amount,
    *,
    raise_id: Annotated[
        str | None, typer.Option("--id", help="Name of the raise: with it it is made once.")
    ] = None,
    weights: NewWeights = None,
    common: RegionOptions,
) -> None:
    """Raise the limit by an amount while spending goes on, once for each --id, within 30 days.

    Without one the raise gets an id, which is said first: interrupted it is repeated with that.
    """
    more, shared = amount_of(amount), _weights(weights)
    name = raise_id if raise_id is not None else str(uuid.uuid4())
    if raise_id is None:
        say(f"to repeat this raise: --id {name}", err=True)

    async def call(table: Table) -> LimitChange:
        try:
            return await table.budget(counter).raise_limit(more, id=name, weights=shared)
        except LedgerError as error:
            if error.outcome == "unknown":
                error.args = (f"{error}; repeat with --id {name}", *error.args[1:])
            raise

    _say_change(_run(common, call), as_json=common.as_json)


@app.command()
@spread_options
def lower(
    counter: Counter,
    limit: Annotated[str, typer.Argument(help="The limit to go down to, 0 or more.")],
    *,
    weights: NewWeights = None,
    common: RegionOptions,
) -> None:
    """Lower the limit to an amount, as far as that can be done now; run again it goes on.

    What processes were granted comes back as they close their grants, within minutes.
    """
    target, shared = amount_of(limit), _weights(weights)
    change = _run(
        common, lambda table: table.budget(counter).lower_limit(to=target, weights=shared)
    )
    _say_change(change, as_json=common.as_json)


@app.command()
@spread_options
def confirm(counter: Counter, *, common: RegionOptions) -> None:
    """Do what is due for an announced limit of windows; a process that spends does so as well."""
    _say_change(_run(common, lambda table: table.budget(counter).go_on()), as_json=common.as_json)


@app.command()
@spread_options
def spend(
    counter: Counter,
    amount: Amount,
    *,
    options: SpendOptions,
    common: RegionOptions,
) -> None:
    """Spend an amount if the budget has as much; exit with 1 if it has not.

    With --key and --at, repeating the command spends nothing more. A program spends by the library:
    a command takes a grant for each amount, and closes it; with --key a pass does, in some 20 min.
    """
    asked, arguments = amount_of(amount), options.arguments()

    async def call(table: Table) -> Granted | Refused:
        return await _told(options.budgets(table, counter).spend(asked, **arguments))

    _say_outcome(_run(common, call), "spent", as_json=common.as_json)


@app.command()
@spread_options
def credit(
    counter: Counter,
    amount: Amount,
    *,
    note: Annotated[str | None, typer.Option(help="Free text, kept with the entry.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Key of your own, part of the entry's id; with --at, unless a UUIDv7."),
    ] = None,
    at: Annotated[str | None, typer.Option(help="ISO time of the change, with a zone.")] = None,
    wait: Annotated[
        str, typer.Option(help="How long it is waited for that it can be spent.")
    ] = "10s",
    common: RegionOptions,
) -> None:
    """Give a budget an amount: a delivery, a top-up, a return.

    It can be spent once every region shows it. If that takes longer than --wait, a pass of the
    compactor sees to it, in some 20 min. With --key and --at, repeating the command credits nothing
    more.

    The counter must match a pattern of the contract: `ledger table set budgets PATTERN=credits:on`.
    """
    asked, moment, seconds = amount_of(amount), iso_time("--at", at), _seconds("--wait", wait)

    async def call(table: Table) -> Credited:
        budget = table.budget(counter)
        return await _told(budget.credit(asked, note=note, key=key, at=moment, wait=seconds))

    done = _run(common, call)
    entry = done.entry
    if common.as_json:
        said = {"repeated": entry.repeated, "is_spendable": done.is_spendable}
        print_json([{**EntryModel.fields_of(entry), **said}])
        return
    again = ", by an earlier call" if entry.repeated else ""
    later = "" if done.is_spendable else "; it can be spent once every region shows it"
    say(f"{counter}: {amounts.to_text(entry.change)} credited as {entry.id}{again}{later}")


@app.command()
@spread_options
def hold(
    counter: Counter,
    amount: Amount,
    *,
    expires: Annotated[str, typer.Option(help="How long it is held, such as 10m.")] = "10m",
    options: SpendOptions,
    common: RegionOptions,
) -> None:
    """Keep an amount aside, which counts at once, until it is settled, voided or expires."""
    asked, arguments = amount_of(amount), options.arguments()
    life = timedelta(seconds=_seconds("--expires", expires, is_positive=True))

    async def call(table: Table) -> Granted | Refused:
        budgets = options.budgets(table, counter)
        held = await _told(budgets.hold(asked, expires=life, **arguments))
        return Granted(held.entry) if isinstance(held, Hold) else held

    _say_outcome(_run(common, call), "held", as_json=common.as_json)


@app.command()
@spread_options
def settle(
    counter: Annotated[str, typer.Argument(help="Counter of the hold's entry.")],
    hold_id: HoldId,
    actual: Annotated[str, typer.Argument(help="What it came to, 0 or more.")],
    *,
    over: Annotated[
        bool, typer.Option("--over", help="Charge more than there is: the cost was incurred.")
    ] = False,
    common: RegionOptions,
) -> None:
    """Settle a hold for what it came to, once; repeated it shows the same."""
    amount = amount_of(actual)

    async def call(table: Table) -> Granted | Refused:
        held = table.budget(counter).held(Entry(counter, hold_id, Decimal(0)))
        return await _told(held.settle(amount, over=over))

    _say_outcome(_run(common, call), "settled", as_json=common.as_json)


@app.command()
@spread_options
def void(
    counter: Annotated[str, typer.Argument(help="Counter of the hold's entry.")],
    hold_id: HoldId,
    *,
    common: RegionOptions,
) -> None:
    """Give back all that a hold keeps aside, once; repeated it shows the same."""

    async def call(table: Table) -> Granted | Refused:
        held = table.budget(counter).held(Entry(counter, hold_id, Decimal(0)))
        return await _told(held.void())

    _say_outcome(_run(common, call), "voided", as_json=common.as_json)


@app.command()
@spread_options
def extend(
    counter: Annotated[str, typer.Argument(help="Counter of the hold's entry.")],
    hold_id: HoldId,
    expires: Annotated[str, typer.Argument(help="For how long from now on, such as 10m.")],
    *,
    common: RegionOptions,
) -> None:
    """Let a hold expire later; one that is resolved, or would expire earlier, stays as it is."""
    life = timedelta(seconds=_seconds("EXPIRES", expires, is_positive=True))

    async def call(table: Table) -> Granted:
        held = table.budget(counter).held(Entry(counter, hold_id, Decimal(0)))
        return Granted((await _told(held.extend(life))).entry)

    _say_outcome(_run(common, call), "held", as_json=common.as_json)


app.command()(reclaim)
app.command()(recount)


def _run(common: RegionOptions, call: Callable[[Table], Awaitable[Found]]) -> Found:
    settings, place = common.chosen()

    async def opened() -> Found:
        async with Table.open(settings, region=place) as table:
            return await call(table)

    return anyio.run(opened)


async def _told(call: Awaitable[Found]) -> Found:
    """Await a call; an error says what became of the change."""
    try:
        return await call
    except LedgerError as error:
        has_entry = bool(getattr(error, "entries", True))
        error.args = (with_outcome(error) if has_entry else str(error), *error.args[1:])
        raise


def _say_outcome(outcome: Granted | Refused, done: str, *, as_json: bool) -> None:
    if isinstance(outcome, Refused):
        wanted, here, elsewhere = map(
            amounts.to_text, (outcome.wanted, outcome.here, outcome.elsewhere)
        )
        if as_json:
            print_json([{"granted": False, **asdict(outcome)}])
        say(
            f"error: budget {outcome.budget} refused {wanted}: {here} left here, {elsewhere}"
            f" elsewhere{f'; {CROWDED}' if outcome.crowded else ''}",
            err=True,
        )
        raise typer.Exit(FAILED)
    entry = outcome.entry
    if as_json:
        print_json([{"granted": True, **EntryModel.fields_of(entry), "repeated": entry.repeated}])
        return
    again = ", by an earlier call" if entry.repeated else ""
    amount = amounts.to_text(entry.change.copy_negate())
    say(f"{entry.counter}: {amount} {done} as {entry.id}{again}")


def _say_change(change: LimitChange, *, as_json: bool) -> None:
    text = amounts.to_text
    if as_json:
        print_json([change])
        return
    say(f"budget {change.budget}: at most {text(change.limit)}{_going(change)}")
    if change.since is not None and change.later is not None:
        confirm = f"`ledger budget confirm {change.budget}`"
        unless = (
            "" if change.is_confirmed else f", once confirmed, by spending processes or {confirm}"
        )
        say(f"windows from {utc_text(change.since)} on: {text(change.later)}{unless}")


def _going(change: LimitChange) -> str:
    """Return what goes on with a change: a raise without an id would be made again."""
    target = amounts.to_text(change.target)
    going = f", going to {target}" if change.limit > change.target else ""
    again = f"`ledger budget lower {change.budget} {target}`"
    if change.unreclaimed:
        lost = ", ".join(change.unreclaimed)
        return f"{going}, as far as is known before {lost} is reclaimed: {again} after that"
    return f"{going}: {again} goes on" if going else ""


def _fields(state: BudgetState) -> dict[str, Any]:
    regions = [{**asdict(region), "at_stake": region.at_stake} for region in state.regions]
    names = ("free", "owed", "stranded")
    more = {name: getattr(state, name) for name in names} | {"regions": regions}
    return asdict(state) | more


def _grid(states: Iterable[BudgetState]) -> Grid:
    names = ("limit", "charged", "granted", "free", "stranded")
    columns = [Column("budget"), *map(number, names)]
    rows = [
        [state.counter, *(amounts.to_text(getattr(state, name)) for name in names)]
        for state in states
    ]
    return Grid(columns, rows)


def _weights(given: list[str] | None) -> dict[str, int] | None:
    """Return the weights of an option.

    Raises:
        InvalidInput: one is not REGION=N, or a region is given twice.
    """
    if not given:
        return None
    found = {}
    for each in given:
        name, _, weight = each.partition("=")
        if not (name and weight.isascii() and weight.isdigit() and len(weight) < len("10000")):
            raise InvalidInput(f"--weight must be REGION=N, such as eu-west-1=3, got {each!r}")
        if name in found:
            raise InvalidInput(f"--weight must name a region once, got {name} twice")
        found[name] = int(weight)
    return found


def _seconds(option: str, text: str, *, is_positive: bool = False) -> float:
    """Return the seconds of an option; an error names it."""
    try:
        return parse_duration(text, is_positive=is_positive)
    except InvalidInput as error:
        raise InvalidInput(f"{option} {error}") from None
