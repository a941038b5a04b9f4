"""The file of webhooks."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.hooks import SECRET

import ledger
from ledger.core.errors import LedgerError
from ledger.core.values import Entry, Leg
from ledger.http.webhooks.hooks import Hook, read_hooks

GOOD = {"url": "https://a.example/x", "secret": SECRET}
CROSSING = {**GOOD, "on": "crossings", "below": 3}


def written(folder: Path, content: Any) -> Path:
    """Write a file."""
    path = folder / "webhooks.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_file_names_what_goes_where(tmp_path: Path) -> None:
    """With its defaults; a secret is not shown."""
    hooks = read_hooks(written(tmp_path, {"webhooks": {"a": GOOD, "b": CROSSING}}))
    assert hooks["a"].name == "a"
    assert hooks["a"].matches("anything")
    watch = hooks["b"].watch
    assert watch is not None
    assert watch.name == "webhook b"
    assert watch.bound == watch.rearm == 3
    assert SECRET not in repr(hooks)


def test_the_file_of_the_how_to_is_read_as_it_stands(tmp_path: Path) -> None:
    """A bare `on:` is a key; true and yes are booleans where one is asked for."""
    page = (Path(ledger.__file__).parent / "docs/howto/react-to-changes.md").read_text("utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    hooks = read_hooks(written(tmp_path, example))
    assert {name: hook.on for name, hook in hooks.items()} == {
        "erp": "changes",
        "low-stock": "crossings",
    }
    private = "webhooks: {a: {url: 'http://a.example', secret_env: X, private: %s}}"
    assert read_hooks(written(tmp_path, private % "true"))["a"].private
    assert read_hooks(written(tmp_path, private % "yes"))["a"].private


@pytest.mark.parametrize(
    ("account", "taken"),
    [(None, True), ("cash", True), ("customer/*", True), ("customer/alice", True)]
    + [(account, False) for account in ("cas", "customer/", "customer", "fees/*", "CASH")],
)
def test_a_webhook_takes_the_transfers_that_name_its_account(
    account: str | None, *, taken: bool
) -> None:
    """Exactly, or by the beginning of its name; an entry without legs names none."""
    legs = (Leg("cash", "EUR", Decimal(-5)), Leg("customer/alice", "EUR", Decimal(5)))
    transfer = Entry("book/shop", "id", Decimal(0), legs=legs)
    hook = Hook(**GOOD, counters="book/*", account=account)
    assert hook.takes(transfer) is taken
    assert hook.takes(replace(transfer, legs=())) is (account is None)
    assert not hook.takes(replace(transfer, counter="shop"))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"url": "http://a.example"}, "https"),
        ({"url": "ftp://a.example"}, "https"),
        ({"url": "https://user:pass@a.example"}, "without credentials"),
        ({"url": "https://:pw@a.example"}, "without credentials"),
        ({"url": "https://0177.0.0.1/"}, "names no host"),
        ({"url": "https://0x7f000001/"}, "names no host"),
        ({"url": "https://a.example:abc"}, "names no host and port"),
        ({"url": "https:///x"}, "https"),
        ({"on": "crossings"}, "needs a bound"),
        ({"below": 3}, "has none"),
        ({"on": "crossings", "below": 1.5}, "whole number"),
        ({"on": "crossings", "below": 3, "above": 4}, "either below or above"),
        ({"on": "crossings", "below": 3, "rearm": 1}, "rearm"),
        ({"secret": None}, "give one of"),
        ({"secret_env": "X"}, "give one of"),
        ({"on": "crossings", "below": 3, "account": "cash"}, "on: changes alone"),
        ({"account": ""}, "on: changes alone"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_what_breaks_a_rule_is_named(tmp_path: Path, fields: Any, told: str) -> None:
    """With its place, and never the secret."""
    path = written(tmp_path, {"webhooks": {"a": {**GOOD, **fields}}})
    with pytest.raises(LedgerError, match=told) as caught:
        read_hooks(path)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "webhooks: {}", "[", "webhooks: {A!: 1}", "x: 1"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    """In one line."""
    with pytest.raises(LedgerError):
        read_hooks(written(tmp_path, text))


def test_a_name_has_its_form(tmp_path: Path) -> None:
    """As it is a part of keys."""
    with pytest.raises(LedgerError, match="must be 1 to 64"):
        read_hooks(written(tmp_path, {"webhooks": {"A b": GOOD}}))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """By its path."""
    with pytest.raises(LedgerError, match="cannot be read"):
        read_hooks(tmp_path / "none.yaml")


def test_secrets_come_from_where_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time anew, so that they are rotated; one that is none is told without it."""
    base = {"name": "a", "url": "https://a.example"}
    monkeypatch.setenv("HOOK", SECRET)
    assert len(Hook(**base, secret_env="HOOK").secrets()) == 1
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n{SECRET}\n")
    assert len(Hook(**base, secret_file=path).secrets()) == 2
    for wrong in ({"secret_env": "NONE"}, {"secret_file": tmp_path / "x"}, {"secret": "hunter2"}):
        with pytest.raises(LedgerError, match="secret cannot be used") as caught:
            Hook(**base, **wrong).secrets()
        assert "hunter2" not in str(caught.value)
