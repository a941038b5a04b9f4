"""The tables of roles in `deploy/permissions.md`, made from the grants that make the policies."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ledger.administration.templates import Role
from ledger.administration.templates.roles import RoleGrant, Where, grants
from ledger.core import keys, once
from ledger.core.entry import ENTRY_ATTRIBUTES, GRANT, SPENDING_ATTRIBUTES
from ledger.core.hints import HINT_PARTITIONS
from ledger.core.keys import EXPIRES
from ledger.core.sums import SUM_ATTRIBUTES

PAGE = Path(__file__).parents[3] / "deploy" / "permissions.md"
OWN = next(grant.never_keys for grant in grants(Role.WRITER) if grant.never_keys)
TABLES = {
    "own": "",
    "markers": ", of `marker_table`",
    "states": ", also of `state_table`",
    "left": ", with a `state_table`",
    "all": ", of every table",
    "streams": ", of the table's stream",
}
KEYS = ("pk", "sk")
ENTRY = (*KEYS, *(name for name in ENTRY_ATTRIBUTES if name != "reverses"))
ATTRIBUTES = {
    (): "",
    ENTRY: ", of the attributes of entries alone",
    (*once.ATTRIBUTES, GRANT): ", of the attributes of entries, reversals and counts alone",
    (*ENTRY, *SPENDING_ATTRIBUTES): ", of those of entries and spends alone",
    (*ENTRY, *SUM_ATTRIBUTES): ", of those of entries and sums alone",
    (*KEYS, "change", *SPENDING_ATTRIBUTES): ", of what a hold's end changes alone",
}
OBJECTS = {"objects": "`BUCKET/PREFIX/*`", "buckets": "`BUCKET`"}
COLUMNS = ("role", "actions", "in", "on partition keys")
COLUMNS_OF_S3 = ("role", "actions", "in", "on")


def named(partitions: Sequence[str]) -> str:
    """Return partition keys as the page writes them."""
    return ", ".join(f"`{key}`" for key in partitions).replace(
        ", ".join(f"`{key}`" for key in HINT_PARTITIONS),
        f"`{HINT_PARTITIONS[0]}` to `{HINT_PARTITIONS[-1]}`",
    )


def keys_of(grant: RoleGrant) -> str:
    """Return on which partition keys a grant holds, in the page's words."""
    if grant.only_keys:
        return named(grant.only_keys)
    if not grant.never_keys:
        return "" if grant.actions == ("DescribeTable",) else "all"
    assert grant.never_keys == OWN
    return "counters"


def rows(role: Role, *, service: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a role in one of the two tables; the first names it."""
    of_service = [grant for grant in grants(role) if grant.service == service]
    for place, grant in enumerate(of_service):
        actions = ", ".join(grant.actions) + TABLES.get(grant.tables, "")
        actions += ATTRIBUTES[grant.only_attributes]
        if grant.never_attributes:
            assert grant.never_attributes == (EXPIRES,)
            actions += ", of no time to live"
        if grant.if_archived:
            actions = f"with an archive: {actions}"
        where = "home" if grant.where is Where.HOME else "every region"
        where_on = OBJECTS[grant.tables] if service == "s3" else keys_of(grant)
        yield (role.value if place == 0 else "", actions, where, where_on)


def table(columns: Sequence[str], *, service: str) -> str:
    """Return a table of all roles in Markdown."""
    lines = [columns, *(row for role in Role for row in rows(role, service=service))]
    text = [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines]
    return "\n".join([text[0], "|---" * len(columns) + "|", *text[1:]])


@pytest.mark.parametrize(
    ("columns", "service"), [(COLUMNS, "dynamodb"), (COLUMNS_OF_S3, "s3")], ids=["table", "s3"]
)
def test_the_page_says_what_the_policies_allow(columns: Sequence[str], service: str) -> None:
    """Each grant a row, in the order of the policies; on a difference paste what is expected."""
    page = PAGE.read_text(encoding="utf-8")
    head = f"| {' | '.join(columns)} |\n"
    assert head in page
    shown = head + page.split(head, 1)[1].split("\n\n", 1)[0]
    assert shown == table(columns, service=service)


def test_what_is_no_counters_begins_with_a_letter() -> None:
    """Every partition of the ledger's own is kept from who writes under counters, but `~doctor`."""
    own = [value for name, value in vars(keys).items() if name.endswith(("_PREFIX", "_PARTITION"))]
    found = [each for each in own if isinstance(each, str) and not each.startswith("~net")]
    assert len(found) > 15
    kept = [each for each in found if any(fnmatchcase(f"{each}x", pattern) for pattern in OWN)]
    assert set(found) - set(kept) == {keys.DOCTOR_PARTITION}
    for counter in ("c", "d", "~1~c", "~9999~c"):
        assert not any(fnmatchcase(counter, pattern) for pattern in OWN)
