"""What `.github/SECURITY.md` says of each role is what the policies say."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from support.permissions import HOME, SETTINGS, Call

from ledger.administration.templates import Role, policy

PAGE = Path(__file__).parents[3] / ".github" / "SECURITY.md"
THREATS: Mapping[str, Sequence[str]] = tomllib.loads(
    Path(__file__).with_name("threats.toml").read_text(encoding="utf-8")
)
COUNTER = ("customer1-balance",)
WRITES = (
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"),
    *("PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"),
)
REPLACING = {
    Role.WRITER: {"PutItem", "BatchWriteItem"},
    Role.CORRECTOR: {"PutItem"},
    Role.SPENDER: {"PutItem", "BatchWriteItem", "UpdateItem"},
    Role.COMPACTOR: {"PutItem", "BatchWriteItem", "UpdateItem"},
    Role.RECOVERY: {"PutItem", "BatchWriteItem"},
    Role.ARCHIVIST: {"PutItem"},
    Role.IMPORTER: {"PutItem"},
    Role.PIPELINE: {"PutItem", "UpdateItem"},
    Role.AUDIT: {"PutItem", "UpdateItem"},
    Role.ADMINISTRATOR: {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"},
}
"""By which actions a role can replace or delete what lies under a counter's partition key."""


def test_the_page_says_of_every_role_what_it_can_do_at_worst() -> None:
    """No role is left out."""
    named = {name for point in points() for name in re.findall(r"[a-z-]+", point)}
    assert set(Role) <= named


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.STRICT_WRITER])
def test_who_can_replace_what_lies_under_a_counter(role: Role) -> None:
    """Those that the page says can put a net or delete entries, and no others."""
    document = policy(SETTINGS, role)
    allowed = {action for action in WRITES if Call(action, HOME, COUNTER).is_allowed(document)}
    assert allowed - {"PartiQLInsert"} == REPLACING.get(role, set())


def test_a_strict_writer_can_replace_nothing() -> None:
    """Whatever attributes its request names."""
    document = policy(SETTINGS, Role.STRICT_WRITER)
    for names in ((), ("pk", "sk", "change")):
        allowed = {
            action
            for action in WRITES
            if Call(action, HOME, COUNTER, attributes=names).is_allowed(document)
        }
        assert allowed <= {"PartiQLInsert"}


@pytest.mark.parametrize("role", Role)
def test_a_reader_and_users_of_other_methods_write_nothing_that_counts(role: Role) -> None:
    """The contract is the operator's and the administrator's, leases the compactor's, and so on."""
    document = policy(SETTINGS, role)
    may_write = {
        partition
        for partition in ("~contract", "~lease", "~scan", *COUNTER)
        for action in WRITES
        if Call(action, HOME, (partition,), attributes=("pk", "sk")).is_allowed(document)
    }
    expected = {
        Role.READER: set[str](),
        Role.WATCHER: set[str](),
        Role.METHODS: set[str](),
        Role.OPERATOR: {"~contract"},
        Role.STRICT_WRITER: {*COUNTER},
        Role.WRITER: {*COUNTER},
        Role.COMPACTOR: {"~lease", "~scan", *COUNTER},
    }
    assert may_write == expected.get(role, may_write)
    assert role in {Role.OPERATOR, Role.ADMINISTRATOR} or "~contract" not in may_write


def points() -> list[str]:
    """Return the bold words of each point: of roles, without credentials, and of the service."""
    text = PAGE.read_text(encoding="utf-8").partition("## What each role can do at worst")[2]
    return [" ".join(bold.split()) for bold in re.findall(r"(?ms)^- \*\*(.*?)\*\*", text)]


def test_each_point_of_the_page_has_tests_that_are_there() -> None:
    """None is promised without a test, and none is tested that the page does not promise."""
    assert list(THREATS) == points()
    for point, tests in THREATS.items():
        assert tests, point
        for file, _, name in (test.partition("::") for test in tests):
            text = (PAGE.parents[1] / "tests" / file).read_text(encoding="utf-8")
            assert re.search(rf"def {name}\(", text), name
