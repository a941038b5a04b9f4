"""One value of a contract changed by name: as a settings file has it, and by the same rules."""

import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.contracts import make_terms
from support.ledgers import AWAY, HOME, LOCAL, SOUTH
from typer.testing import CliRunner

import compactor.cli
import ledger.commands.contract
import ledger.commands.table
from ledger.administration import contract_changes as administration
from ledger.administration.contract_changes import (
    SHARDS_AHEAD,
    ContractListing,
    first_values,
    left_behind,
    refined,
)
from ledger.core.budget_rules import BudgetRule
from ledger.core.contract import ShardRule, Terms
from ledger.core.contract_item import Contract
from ledger.core.errors import (
    ContractConflict,
    InvalidInput,
    LedgerError,
    SettingsError,
    StateConflict,
    Unreachable,
)
from ledger.core.periods import PeriodRule
from ledger.settings import Settings
from ledger.testing.clock import START

TERMS = make_terms(shards={"hot-*": 2})
SETTINGS = Settings(regions=dict.fromkeys((HOME, AWAY, SOUTH), LOCAL))
SINCE = datetime(2027, 1, 1, tzinfo=UTC)
LATER = START + timedelta(hours=1)


def changed(name: str, value: str, *, contract: Contract | None = None, **options: Any) -> Terms:
    """Return the terms with one value changed."""
    given = {"settings": SETTINGS, "now": START, **options}
    return refined(contract or Contract(terms=TERMS), name, value, **given)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("settle", "2h", 7200.0),
        ("settle", "1500", 1500.0),
        ("retry_horizon", "250ms", 0.25),
        ("signature_lifetime", "10m", 600.0),
        ("clock_skew", "2s", 2.0),
        ("observation_delay", "1m", 60.0),
        ("read_deadline", "5s", 5.0),
        ("contract_life", "2m", 120.0),
        ("home", AWAY, AWAY),
        ("regions", f"{HOME}, {AWAY}", (HOME, AWAY)),
        ("unmerged", "audit/*, legal", ("audit/*", "legal")),
        ("unmerged", "", ()),
        ("index", "usage/*, votes/*", ("usage/*", "votes/*")),
        ("index", "", ()),
        ("combine", "usage/*, votes", ("usage/*", "votes")),
        ("combine", "", ()),
    ],
)
def test_each_value_as_a_file_has_it(name: str, value: str, expected: Any) -> None:
    """That value changes and no other, the ones that would follow from it among them."""
    assert changed(name, value) == replace(TERMS, **{name: expected})


def test_periods_are_set_by_pattern() -> None:
    """What is not said has its default; an empty rule takes a pattern back."""
    given = "usage/*=hours:24, zone:Europe/Berlin,effective:yes"
    first = changed("periods", given)
    rule = PeriodRule(24, 62, 120, "Europe/Berlin", effective=True)
    assert first == replace(TERMS, periods={"usage/*": rule})
    contract = Contract(terms=first, revision=2)
    more = changed("periods", "other=hours:0,days:0", contract=contract).periods
    assert list(more.items()) == [("usage/*", rule), ("other", PeriodRule(0, 0, 120))]
    assert changed("periods", "usage/*=", contract=contract) == TERMS
    both = Contract(terms=changed("periods", "a=b*=days:7", contract=contract), revision=4)
    again = changed("periods", "usage/*=hours:0", contract=both).periods
    assert list(again) == ["usage/*", "a=b*"]
    with pytest.raises(InvalidInput, match="'usage/vip' would have no effect: 'usage/\\*' comes"):
        changed("periods", "usage/vip=days:3", contract=both)
    assert changed("settle", "2h", contract=contract).periods == first.periods


def test_budgets_are_set_by_pattern_and_stay() -> None:
    """A pattern with its rule; a pattern that the contract has cannot be taken back."""
    first = changed("budgets", "key/*=window:day,late:1h,on_outage:allow")
    rule = BudgetRule("day", late=3600.0, on_outage="allow")
    assert first == replace(TERMS, budgets={"key/*": rule})
    contract = Contract(terms=first, revision=2)
    more = changed("budgets", "key/*=window:day,grant_life:30s", contract=contract)
    assert more.budgets == {"key/*": BudgetRule("day", grant_life=30.0)}
    assert first.budget_of("key/42@2026-11-25") == rule
    assert first.budget_of("team/7") is None
    exact = changed("budgets", "org=window:month", contract=contract)
    assert exact.budget_of("org@2026-11") == BudgetRule("month")
    with pytest.raises(StateConflict, match="budgets keep the rule of 'key/\\*'"):
        changed("budgets", "key/*=", contract=contract)


def test_credits_begin_and_do_not_end() -> None:
    """Some may not be taken in yet, and amounts are checked as of 10^22."""
    contract = Contract(terms=changed("budgets", "key/*=window:none"), revision=2)
    terms = changed("budgets", "key/*=credits:on", contract=contract)
    assert terms.budgets == {"key/*": BudgetRule(credits=True)}
    with pytest.raises(StateConflict, match="budgets keep the credits of 'key/\\*'"):
        changed("budgets", "key/*=credits:off", contract=Contract(terms=terms, revision=2))


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("window:day", "window:month", "window of 'key/\\*', which is day, got month"),
        ("window:day", "window:none", "window"),
        ("window:none", "rolling:24h", "rolling"),
        ("rolling:24h", "rolling:7d", "rolling"),
        ("window:day", "window:day,zone:Europe/Berlin", "zone"),
    ],
)
def test_what_budgets_count_by_does_not_change(before: str, after: str, kept: str) -> None:
    """Of a pattern that is in force: what was spent would count twice, never, or for good."""
    contract = Contract(terms=changed("budgets", f"key/*={before}"), revision=2)
    with pytest.raises(StateConflict, match=f"budgets keep the {kept}"):
        changed("budgets", f"key/*={after}", contract=contract)
    assert changed("budgets", f"key/*={before}", contract=contract) == contract.terms


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("key/*=late:1h", "those of a window"),
        ("key/*=zone:Europe/Berlin", "those of a window"),
        ("key/*=window:week", "window"),
        ("key/*=credits:on,window:day", "credits are of a budget without a window"),
        ("key/*=credits:on,rolling:24h", "without a rolling limit"),
        ("key/*=credits:on,on_outage:allow", "credits need on_outage:refuse"),
        ("key/*=window:day,zone:Berlin", "'Berlin' is not a time zone"),
        ("key/*=window:day,late:32d", "31 days"),
        ("key/*=grant_life:0s", "from a second to a day"),
        ("key/*=on_outage:maybe", "on_outage"),
        ("key/*=window:day,late:1h,team/*=window:day", "budgets are set one at a time"),
    ],
)
def test_a_rule_of_budgets_that_breaks_one_is_refused(value: str, error: str) -> None:
    """By the settings' own rules, before anything is announced."""
    with pytest.raises((InvalidInput, SettingsError), match=error):
        changed("budgets", value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("usage/*", "periods must be PATTERN=NAME:VALUE"),
        ("=hours:3", "periods must be PATTERN=NAME:VALUE"),
        ("usage/*=hours", "periods must be PATTERN=NAME:VALUE"),
        ("usage/*=,", "periods must be PATTERN=NAME:VALUE"),
        ("usage/*=days:1,days:2", "each name once"),
        ("usage/*=zone:localtime", "'localtime' is not a time zone"),
        ("\ud800=days:1", "an unpaired surrogate"),
        ("usage/*=weeks:3", "weeks"),
        ("usage/*=hours:-1", "hours"),
        ("usage/*=hours:0,days:0,months:0", "all 0"),
        ("usage/*=zone:Berlin", "'Berlin' is not a time zone"),
    ],
)
def test_a_rule_of_periods_that_is_none_is_refused(value: str, error: str) -> None:
    """By the settings' own rules, before anything is announced."""
    with pytest.raises((InvalidInput, SettingsError), match=error):
        changed("periods", value)


def test_shards_grow_by_a_dated_step() -> None:
    """A day ahead, or at the date given; a new pattern goes last and begins with one shard."""
    assert changed("shards", "hot-*=8").shards == {
        "hot-*": (ShardRule(2), ShardRule(8, START + SHARDS_AHEAD))
    }
    grown = changed("shards", "x=y=4", since=SINCE).shards
    assert list(grown.items()) == [
        ("hot-*", (ShardRule(2),)),
        ("x=y", (ShardRule(1), ShardRule(4, SINCE))),
    ]


def test_run_again_it_means_the_step_that_it_announced() -> None:
    """The date is not counted from the second run: another date would be another change."""
    announced = changed("shards", "hot-*=8")
    pending = Contract(terms=TERMS, revision=1, coming=announced)
    assert changed("shards", "hot-*=8", contract=pending, now=LATER) == announced
    assert changed("shards", "hot-*=9", contract=pending, now=LATER) != announced
    assert changed("shards", "hot-*=8", contract=pending, since=SINCE) != announced


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("settle", "15m", "settle .* must exceed retry_horizon"),
        ("retry_horizon", "30m", "settle .* must exceed retry_horizon"),
        ("signature_lifetime", "1h", "must exceed"),
        ("clock_skew", "10m", "must exceed"),
        ("observation_delay", "15s", r"observation_delay .* must exceed read_deadline"),
        ("read_deadline", "20s", r"observation_delay .* must exceed read_deadline"),
        ("regions", AWAY, "is not one of the regions"),
        ("home", "nowhere", "is not one of the regions"),
        ("shards", "hot-*=1", "only grow"),
        ("shards", "hot-*=1000", "100"),
    ],
)
def test_what_breaks_a_relation_is_refused(name: str, value: str, rule: str) -> None:
    """By the rules of the settings, with their message; nothing is announced."""
    with pytest.raises(SettingsError, match=rule):
        changed(name, value)


def test_a_signature_of_aws_is_not_made_shorter() -> None:
    """Requests to AWS live as long as AWS says, whatever the contract would like."""
    aws = Settings(regions=dict.fromkeys((HOME, AWAY, SOUTH)))
    with pytest.raises(SettingsError, match="signature_lifetime"):
        changed("signature_lifetime", "10m", settings=aws)


@pytest.mark.parametrize("value", ["hot", "=3", "hot=", "hot=x", "hot=-1"])
def test_shards_are_a_pattern_and_a_count(value: str) -> None:
    """Anything else names the form."""
    with pytest.raises(InvalidInput, match="must be PATTERN=COUNT"):
        changed("shards", value)


def test_a_pattern_that_an_earlier_one_covers_is_refused() -> None:
    """The first that matches counts: the step would be in force and change nothing."""
    with pytest.raises(InvalidInput, match="'hot-1' would have no effect: 'hot-\\*' comes before"):
        changed("shards", "hot-1=8")


def test_a_name_that_no_contract_holds_is_refused() -> None:
    """The message lists what it holds."""
    with pytest.raises(
        InvalidInput, match=r"set in the contract is home, settle, .*regions; got 'cache'"
    ):
        changed("cache", "1")
    with pytest.raises(InvalidInput, match="must be a duration"):
        changed("settle", "long")


def test_a_region_without_an_endpoint_beside_others_is_refused() -> None:
    """Where it is must be in the settings first."""
    with pytest.raises(ContractConflict, match="endpoint"):
        changed("regions", f"{HOME},eu-north-1")


def test_what_regions_show_is_compared_with_the_newest() -> None:
    """Behind are those that show an older contract, none, or cannot be read."""
    newest = Contract(terms=TERMS, revision=2)
    shown = ContractListing(
        "t", {HOME: newest, AWAY: Contract(terms=TERMS), SOUTH: None, "x": Unreachable("gone")}
    )
    assert shown.newest == newest
    assert shown.behind == (AWAY, SOUTH, "x")
    assert ContractListing("t", {HOME: None}).newest is None


def test_an_index_can_be_of_the_first_contract() -> None:
    """`ledger table create --set index=...` takes patterns with commas between."""
    assert first_values(["index=usage/*, votes/*"]) == {"index": ("usage/*", "votes/*")}


def test_first_values_are_settings_of_a_contract() -> None:
    """Text as in a file; anything that a contract does not hold is refused."""
    assert first_values(["settle=30m", f"home={AWAY}", "shards=a=2", "shards=b=3"]) == {
        "settle": "30m",
        "home": AWAY,
        "shards": {"a": 2, "b": 3},
    }
    for wrong in ("settle", "cache=3", "=3"):
        with pytest.raises(InvalidInput, match=f"NAME=VALUE, with one of home, .*got '{wrong}'"):
            first_values([wrong])
    with pytest.raises(InvalidInput, match="PATTERN=COUNT"):
        first_values(["shards=4"])


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        (Contract(terms=TERMS, revision=4), "nothing is pending, revision 4 of the contract is in"),
        (
            Contract(terms=TERMS, revision=5, coming=replace(TERMS, home=AWAY)),
            "revision 5 of the contract is announced and pending: the same command again finishes",
        ),
        (Unreachable("no answer"), "`ledger table show` says whether"),
    ],
)
async def test_what_an_interrupt_left_is_read(
    contract: Contract | LedgerError, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In force, or announced; where nothing answers, where to look."""

    async def shown(settings: Settings) -> ContractListing:
        return ContractListing(settings.table, {HOME: contract})

    monkeypatch.setattr(administration, "show", shown)
    assert (await left_behind(SETTINGS)).startswith(said)


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (ledger.commands.table.app, ["set", "settle", "2h"]),
        (compactor.cli.app, ["move-home", AWAY]),
    ],
    ids=["set", "move-home"],
)
def test_an_interrupted_change_is_one_line(
    app: Any, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C ends it with 130, and what was left is said."""

    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    async def left(_settings: Settings) -> str:
        return "revision 5 is pending"

    for module in (ledger.commands.contract, compactor.cli):
        monkeypatch.setattr(module, "change", interrupted)
        monkeypatch.setattr(module, "left_behind", left)
    file = tmp_path / "regions.yaml"
    file.write_text(f"regions: {{{HOME}: , {AWAY}: }}\n", encoding="utf-8")
    ran = CliRunner().invoke(app, [*words, "--config", str(file)])
    assert ran.exit_code == 128 + signal.SIGINT
    assert ran.stderr == "interrupted: revision 5 is pending\n"
