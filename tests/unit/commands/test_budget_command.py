"""`ledger budget` over a table in memory: what each command prints, and its exit status."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.commands import Ran, run_command_here

from ledger.administration.budget_recovery import Restored, RightsReclaim
from ledger.budgets.budget import Budget, Budgets, Hold
from ledger.budgets.calendar import Window
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.lost_stake import LostStake
from ledger.budgets.reclaim import Reclaim
from ledger.budgets.restore_plan import RestorePlan
from ledger.budgets.rights import Holder
from ledger.budgets.spend_request import Refused
from ledger.commands import budget_recovery
from ledger.core.errors import ContractChangeRefused, InvalidInput, OutcomeUnknown
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.table import Table
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
COUNTER = "key/42"


@dataclass
class Desk:
    """A table in memory that the commands open, by a settings file that names its regions."""

    world: MemoryGlobalTable
    folder: Path

    def run(self, *arguments: str) -> Ran:
        """Run `ledger budget` with these arguments."""
        ran = run_command_here("ledger", "budget", *arguments, folder=self.folder)
        self.world.replicate()
        return ran

    def json(self, *arguments: str, status: int = 0) -> Any:
        """Return what it prints with --json."""
        ran = self.run(*arguments, "--json")
        assert ran.status == status, ran
        return json.loads(ran.out)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A table with a pattern of budgets, and one with windows of a day."""
    rules = {"key/*": {}, "day/*": {"window": "day"}, "stock/*": {"credits": "on"}}
    world = MemoryGlobalTable([EAST, WEST], budgets=rules)
    settings = f"home: {EAST}\nregions: {{{EAST}: {{}}, {WEST}: {{}}}}\n"
    (tmp_path / "regions.yaml").write_text(settings, encoding="utf-8")

    def opened(settings: Settings, *, region: str, **_: object) -> Table:
        del settings
        return world.table(region)

    monkeypatch.setattr(Table, "open", opened)
    return Desk(world, tmp_path)


def test_a_credit_says_whether_it_can_be_spent(desk: Desk) -> None:
    """With a key it is made once, and says so."""
    desk.run("create", "stock/7", "0")
    named = "--key", "delivery-1", "--at", desk.world.clock.now().isoformat(), "--wait", "0s"
    first, again = (desk.run("credit", "stock/7", "5", *named) for _ in range(2))
    assert first.out.startswith("stock/7: 5 credited as ")
    assert first.out.endswith("; it can be spent once every region shows it\n")
    assert ", by an earlier call" in again.out
    said = desk.json("credit", "stock/7", "5", *named)
    assert (said["change"], said["repeated"], said["is_spendable"]) == ("5", True, False)
    assert desk.json("show", "stock/7")["waiting"] == "0"  # of the process that credited
    refused = desk.run("credit", COUNTER, "5")
    assert refused.status == 2
    assert "credits:on" in refused.errors


def test_a_reversed_spend_says_when_it_can_be_spent_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the budget has credits; the command ends before every region shows it."""
    monkeypatch.setattr(Ledger, "open", lambda *_, region, **__: desk.world.ledger(region))
    back = "; its budgets have the amount back once every region shows it\n"
    for counter, ends in (("stock/7", True), (COUNTER, False)):
        desk.run("create", counter, "5")
        entry = desk.json("spend", counter, "2")["id"]
        ran = run_command_here("ledger", "reverse", counter, entry, folder=desk.folder)
        assert ran.status == 0, ran
        assert ran.out.endswith(back) is ends


def test_a_first_delivery_counts_once(desk: Desk) -> None:
    """As a create or a raise; what is said is true once the limit is another."""
    assert desk.run("create", COUNTER, "10", "--id", "first").out == (
        "budget key/42 is limited to 10\n"
    )
    assert "at most 10" in desk.run("raise", COUNTER, "10", "--id", "first").out
    desk.run("raise", COUNTER, "5", "--id", "second")
    assert desk.run("create", COUNTER, "10", "--id", "first").out == (
        "budget key/42 had raise first already, by 10\n"
    )
    assert desk.run("create", "key/empty", "0").out == "budget key/empty is limited to 0\n"


def test_a_budget_is_made_spent_and_refused(desk: Desk) -> None:
    """A refusal ends with 1, and says what is left here and elsewhere."""
    assert desk.run("create", COUNTER, "10").out == "budget key/42 is limited to 10\n"
    assert desk.run("create", COUNTER, "10").out == (
        "budget key/42 was there already: limited to 10\n"
    )
    spent = desk.json("spend", COUNTER, "7.50")
    assert (spent["granted"], spent["change"], spent["repeated"]) == (True, "-7.5", False)
    refused = desk.run("spend", COUNTER, "3")
    assert (refused.status, refused.out) == (1, "")
    assert refused.errors == "error: budget key/42 refused 3: 2.5 left here, 0 elsewhere\n"
    left = desk.json("spend", COUNTER, "3", status=1)
    assert left == {
        "granted": False,
        "budget": COUNTER,
        "wanted": "3",
        "here": "2.5",
        "elsewhere": "0",
        "crowded": False,
    }


def test_a_refusal_for_too_many_grants_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is enough: by the amounts alone nobody would know what to wait for."""
    refused = Refused(COUNTER, Decimal(3), Decimal(9), Decimal(0), crowded=True)

    async def spend(*_: object, **__: object) -> Refused:
        return refused

    monkeypatch.setattr(Budget, "spend", spend)
    assert desk.run("spend", COUNTER, "3").errors == (
        f"error: budget {COUNTER} refused 3: 9 left here, 0 elsewhere; 400 grants of this region"
        " are open, and one has to be closed first\n"
    )


def test_a_repeat_with_its_key_spends_once(desk: Desk) -> None:
    """And says so."""
    desk.run("create", COUNTER, "10")
    at = desk.world.clock.now().isoformat()
    given = ("spend", COUNTER, "6", "--key", "order-7", "--at", at)
    assert " spent as " in desk.run(*given).out
    assert desk.run(*given).out.endswith(", by an earlier call\n")


def test_budgets_are_spent_from_together(desk: Desk) -> None:
    """All or none; the refusal names the one that had too little."""
    desk.run("create", COUNTER, "10")
    desk.run("create", "key/team", "5")
    refused = desk.run("spend", COUNTER, "6", "--also", "key/team")
    assert refused.errors == "error: budget key/team refused 6: 5 left here, 0 elsewhere\n"
    assert desk.run("spend", COUNTER, "5", "--also", "key/team").status == 0


@pytest.mark.parametrize("region", [EAST, WEST])
def test_a_hold_is_settled_by_its_id_from_any_region(desk: Desk, region: str) -> None:
    """Through the region that it was made in; once."""
    desk.run("create", COUNTER, "10")
    held = desk.json("hold", COUNTER, "8", "--expires", "10m")
    expires = desk.world.clock.now() + timedelta(minutes=10)
    assert held["spending"]["hold"] == expires.isoformat()
    assert "hold" not in held
    settle = ("settle", COUNTER, held["id"], "2", "--region", region)
    assert desk.json(*settle)["change"] == "-2"
    assert desk.json(*settle)["repeated"] is True
    ran = desk.run("void", COUNTER, held["id"])
    assert ran.status == 1
    assert "was resolved before: settled, for 2" in ran.errors
    assert desk.json("show", COUNTER)["charged"] == "2"


def test_a_hold_that_is_not_there_is_said(desk: Desk) -> None:
    """With where it was looked for."""
    desk.run("create", COUNTER, "10")
    ran = desk.run("void", COUNTER, "2026-11-21T06:50:00.000000Z#0000000000000001")
    assert ran.status == 1
    assert "is not in us-east-1: it was never written, has not arrived, or was" in ran.errors


def test_a_hold_is_voided(desk: Desk) -> None:
    """All of it is free again."""
    desk.run("create", COUNTER, "10")
    held = desk.json("hold", COUNTER, "8")
    assert desk.run("void", COUNTER, held["id"]).status == 0
    assert desk.json("show", COUNTER)["free"] == "10"


def test_a_hold_is_extended(desk: Desk) -> None:
    """To a later expiry, as long as it is open."""
    desk.run("create", COUNTER, "10")
    held = desk.json("hold", COUNTER, "8", "--expires", "10m")
    extend = ("extend", COUNTER, held["id"], "20m", "--region", WEST)
    later = desk.world.clock.now() + timedelta(minutes=20)
    assert desk.json(*extend)["spending"]["hold"] == later.isoformat()
    ran = desk.run("extend", COUNTER, held["id"], "5m")
    assert ran.status == 2
    assert "is extended to a later expiry than" in ran.errors
    assert desk.run("settle", COUNTER, held["id"], "2").status == 0
    assert "was resolved (settled)" in desk.run(*extend).errors


def test_a_limit_is_raised_and_lowered(desk: Desk) -> None:
    """A raise once for its id; the answer says at most what it is now."""
    desk.run("create", COUNTER, "10")
    raised = ("raise", COUNTER, "5", "--id", "order-1")
    assert desk.run(*raised).out == "budget key/42: at most 15\n"
    assert desk.run(*raised).out == "budget key/42: at most 15\n"
    desk.run("spend", COUNTER, "12")
    lowered = desk.run("lower", COUNTER, "4")
    assert (
        lowered.out
        == "budget key/42: at most 12, going to 4: `ledger budget lower key/42 4` goes on\n"
    )
    assert desk.json("lower", COUNTER, "4") == {
        "budget": COUNTER,
        "limit": "12",
        "target": "4",
        "later": None,
        "since": None,
        "unreclaimed": [],
        "is_confirmed": False,
    }


@pytest.mark.parametrize(("limit", "going"), [(6, ", going to 4"), (4, "")])
def test_a_lowering_after_a_loss_says_what_comes_first(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, limit: int, going: str
) -> None:
    """It is not done by itself: a region has to be reclaimed."""

    async def lowered(*_: object, **__: object) -> LimitChange:
        return LimitChange(COUNTER, Decimal(limit), Decimal(4), unreclaimed=(WEST,))

    monkeypatch.setattr(Budget, "lower_limit", lowered)
    assert desk.run("lower", COUNTER, "4").out == (
        f"budget {COUNTER}: at most {limit}{going}, as far as is known before {WEST} is reclaimed:"
        f" `ledger budget lower {COUNTER} 4` after that\n"
    )
    assert desk.json("lower", COUNTER, "4")["unreclaimed"] == [WEST]


def test_a_raise_of_windows_says_from_when_on_it_holds(desk: Desk) -> None:
    """And who confirms it."""
    desk.run("create", "day/1", "10")
    raised = desk.run("raise", "day/1", "5")
    assert raised.out.splitlines() == [
        "budget day/1: at most 15",
        (
            "windows from 2026-11-22T00:00:00Z on: 15, once confirmed, by spending processes or"
            " `ledger budget confirm day/1`"
        ),
    ]
    assert desk.run("confirm", "day/1").status == 0


def test_an_unknown_raise_says_its_id(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With which it can be repeated."""

    async def unanswered(*_: object, **__: object) -> None:
        raise OutcomeUnknown("no answer", entries=[], retryable=True)

    monkeypatch.setattr(Budget, "raise_limit", unanswered)
    ran = desk.run("raise", COUNTER, "5")
    assert ran.status == 1
    said, error = ran.errors.splitlines()
    assert said.startswith("to repeat this raise: --id ")
    assert error == f"error: no answer; repeat with {said.partition(': ')[2]}"


def test_budgets_are_listed(desk: Desk) -> None:
    """Those of the table, each with what is charged and free; of windows the one that runs."""
    desk.run("create", COUNTER, "10", "--weight", f"{EAST}=2", "--weight", f"{WEST}=1")
    desk.run("create", "day/1", "9")
    desk.run("spend", COUNTER, "4")
    listed = [json.loads(line) for line in desk.run("show", "--json").out.splitlines()]
    assert [(one["counter"], one["limit"], one["charged"], one["free"]) for one in listed] == [
        ("day/1@2026-11-21", "9", "0", "9"),
        (COUNTER, "10", "4", "6"),
    ]
    assert COUNTER in desk.run("show").out


def test_a_budget_is_explained(desk: Desk) -> None:
    """Region by region, with what a reclaim would put at stake."""
    desk.run("create", COUNTER, "10")
    desk.run("spend", COUNTER, "4")
    assert desk.run("explain", COUNTER).out.splitlines() == [
        "budget key/42: limit 10",
        "spent: 4 charged, up to 4 with what open grants may spend",
        "free: 6",
        (
            "us-east-1: 6 free, 0 granted, 0 on its way here, 4 charged; a reclaim would put at"
            " most 6 at stake"
        ),
        "stranded: 0",
    ]
    assert desk.json("explain", COUNTER)["regions"][0]["at_stake"] == "6"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "other", "10"), "matches no pattern of the contract's budgets"),
        (("create", COUNTER, "--", "-1"), "a limit must be 0 or more, got -1"),
        (("create", COUNTER, "1", "--weight", "x"), "--weight must be REGION=N"),
        (("create", COUNTER, "1", "--weight", f"{EAST}=10000"), "--weight must be REGION=N"),
        (
            ("create", COUNTER, "1", "--weight", f"{EAST}=1", "--weight", f"{EAST}=3"),
            f"--weight must name a region once, got {EAST} twice",
        ),
        (
            ("create", COUNTER, "1", "--weight", f"{EAST}=0"),
            f"weights of a limit must be 0 or more, one above, got {EAST}=0\n",
        ),
        (("create", COUNTER, "1", "--weight", "x=1"), "weights name 'x', which is not a region"),
        (("spend", COUNTER, "1"), "has no limit in us-east-1: create it, by `ledger budget"),
        (("spend", COUNTER, "ten"), "ten"),
        (("hold", COUNTER, "1", "--expires", "soon"), "--expires must be a duration above 0"),
        (("spend", COUNTER, "1", "--wait", "-5m"), "--wait must be a duration, such"),
        (("lower", COUNTER, "1"), "create it first"),
        (("show", "--at", "2026-11-21T00:00Z"), "--at is of one budget, got 2026-11-21T00:00Z and"),
        (("reclaim", "--lost", WEST, "--most", "-1"), "--most must be 0 or more"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_cannot_be_done_is_one_line(desk: Desk, arguments: tuple[str, ...], said: str) -> None:
    """With what to do, and an exit status."""
    ran = desk.run(*arguments)
    assert ran.status in {1, 2}
    assert said in ran.errors
    assert ran.errors.count("\n") == 1


AT = "2026-11-21T06:50:00+00:00"
ENTRY = "2026-11-21T06:50:00.000000Z#0000000000000001"
SHARED = ("--weight", f"{EAST}=2", "--weight", f"{WEST}=1")
WEIGHTS = {EAST: 2, WEST: 1}
NAMED = ("--also", "key/team", "--note", "call", "--key", "order-7", "--at", AT, "--wait", "5s")
NAMES = {
    "budgets": (COUNTER, "key/team"),
    "note": "call",
    "key": "order-7",
    "at": datetime.fromisoformat(AT),
    "wait": 5.0,
}


@pytest.mark.parametrize(
    ("arguments", "kind", "method", "passed"),
    [
        (
            ("create", COUNTER, "5", "--id", "order-1", *SHARED),
            Budget,
            "create",
            {"id": "order-1", "weights": WEIGHTS},
        ),
        (("spend", COUNTER, "5", *NAMED), Budgets, "spend", NAMES),
        (
            ("hold", COUNTER, "5", *NAMED, "--expires", "20m"),
            Budgets,
            "hold",
            {**NAMES, "expires": timedelta(minutes=20)},
        ),
        (("settle", COUNTER, ENTRY, "5", "--over"), Hold, "settle", {"over": True}),
        (("settle", COUNTER, ENTRY, "5"), Hold, "settle", {"over": False}),
        (
            ("raise", COUNTER, "5", "--id", "order-1", *SHARED),
            Budget,
            "raise_limit",
            {"id": "order-1", "weights": WEIGHTS},
        ),
        (
            ("lower", COUNTER, "5", *SHARED),
            Budget,
            "lower_limit",
            {"to": Decimal(5), "weights": WEIGHTS},
        ),
        (("show", COUNTER, "--at", AT), Budget, "state", {"at": NAMES["at"]}),
        (("explain", COUNTER, "--at", AT), Budget, "state", {"at": NAMES["at"]}),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_each_option_reaches_the_library(
    arguments: tuple[str, ...],
    kind: type,
    method: str,
    passed: dict[str, object],
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the argument of its name; wider budgets are named beside the first."""
    seen: list[dict[str, object]] = []

    async def called(self: Any, *_: object, **given: object) -> None:
        seen.append(given | ({"budgets": self.names} if kind is Budgets else {}))
        raise InvalidInput("it was called")

    monkeypatch.setattr(kind, method, called)
    assert "it was called" in desk.run(*arguments).errors
    assert seen == [passed]


WAITS = Window("key/waits", "key/waits")


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[Decimal | None]:
    """A lost region with 7 at stake; return what reclaims were bounded by."""
    holder, window = Holder(WEST), Window(COUNTER, COUNTER)
    stake = LostStake(Decimal(10), Decimal(0), Decimal(0), Decimal(3), Decimal(0))
    asked: list[Decimal | None] = []
    whole: list[Window] = []

    class Rights:
        async def counters(self, budget: str | None) -> list[Window]:
            if budget == WAITS.budget:
                return [WAITS, window]
            return [window] if budget in {None, COUNTER} else []

        async def is_whole(self, window: Window) -> bool:
            return window in whole

        async def go_on(self, window: Window) -> None:
            whole.append(window)

        async def stakes(self, _: Window) -> dict[Holder, LostStake]:
            return {holder: stake}

        async def reclaim(self, asked_for: Window, most: Decimal | None) -> dict[Holder, Reclaim]:
            if asked_for == WAITS:
                raise ContractChangeRefused("another region is first")
            asked.append(most)
            return {holder: Reclaim(stake, stake.amount if most is None else most)}

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[RightsReclaim]:
        rights: Any = Rights()
        yield rights

    monkeypatch.setattr(budget_recovery, "lost_rights", opened)
    return asked


@pytest.mark.usefixtures("lost")
def test_a_budget_that_waits_for_another_region_holds_up_no_other(desk: Desk) -> None:
    """What can be minted is, and then it is said what cannot be yet."""
    done = desk.run("reclaim", WAITS.budget, "--lost", WEST, "--confirm", WEST)
    assert done.out == "key/42: 7 of eu-west-1.1/0 minted again\n"
    assert (done.status, done.errors.splitlines()[-1]) == (1, "error: another region is first")


@pytest.mark.usefixtures("desk")
def test_a_reclaim_shows_the_stake_and_asks(lost: list[Decimal | None], desk: Desk) -> None:
    """Nothing is minted before the region is named once more."""
    ran = desk.run("reclaim", "--lost", WEST)
    assert ran.status == 2
    assert ran.errors.splitlines() == [
        "a change of the limit of key/42 is left in part: it is finished",
        "at stake in key/42: 7 of eu-west-1.1/0",
        "error: nothing was changed: confirm with --confirm eu-west-1, got None",
    ]
    wrong = desk.run("reclaim", "--lost", WEST, "--confirm", EAST)
    assert (wrong.status, f"got {EAST!r}" in wrong.errors) == (2, True)
    assert lost == []
    done = desk.run("reclaim", COUNTER, "--lost", WEST, "--confirm", WEST)
    assert done.out == "key/42: 7 of eu-west-1.1/0 minted again\n"
    assert "left in part" not in desk.run("reclaim", "--lost", WEST).errors
    bounded = desk.json("reclaim", "--lost", WEST, "--confirm", WEST, "--most", "2")
    assert (bounded["at_stake"], bounded["minted"]) == ("7", "2")
    assert lost == [None, Decimal(2)]
    assert "nothing of eu-west-1 is left" in desk.run("reclaim", "x", "--lost", WEST).errors


@pytest.mark.usefixtures("lost")
def test_a_recount_says_what_it_charged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By counter and holder, and the limit; where nothing was to be done it says that."""
    counted = {COUNTER: {Holder(WEST): RestorePlan(Decimal(3), Decimal(0), Decimal(1))}}
    limits = {COUNTER: LimitChange(COUNTER, Decimal(9), Decimal(10))}
    found = [Restored(counted, limits), Restored({}, {}), Restored(counted, limits)]
    asked: list[str | None] = []

    class Budgets:
        async def recount(self, budget: str | None) -> Restored:
            asked.append(budget)
            return found[len(asked) - 1]

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[Budgets]:
        yield Budgets()

    monkeypatch.setattr(budget_recovery, "restored_budgets", opened)
    assert desk.run("recount").out.splitlines() == [
        f"{COUNTER}: 3 charged to eu-west-1.1/0, 0 sent and 1 taken by it",
        f"{COUNTER}: a change of its limit was there in half, and is made: 10",
    ]
    assert "know of all that was spent" in desk.run("recount", COUNTER).errors
    assert asked == [None, COUNTER]
    by_holder, by_limit = map(json.loads, desk.run("recount", "--json").out.splitlines())
    assert by_holder.pop("holder") == "eu-west-1.1/0"
    assert by_holder == {"counter": COUNTER, "charged": "3", "sent": "0", "taken": "1"}
    assert by_limit == {"counter": COUNTER, "limit": "10"}
