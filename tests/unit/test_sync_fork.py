"""A ledger of `ledger.sync` that was opened before a fork: refused in the child, in one line."""

import subprocess
import sys
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")

SECONDS_MAX = 60.0
"""After which a child hangs for ever."""
BEFORE = """
    import os
    import sys

    from ledger.testing.clock import ManualClock
    from support.ledgers import HOME, make_settings
    from support.tables import make_table

    from ledger import LedgerError, sync
    from ledger.runtime.services import Services
    from ledger.session.assembly import GivenConnections
    from ledger.session.ledger import Ledger
    from ledger.store.memory import MemoryStore

    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    behind = Ledger(
        make_settings(),
        region=HOME,
        services=Services.of(clock=clock),
        given=GivenConnections(store=store),
    )
    ledger, table = sync.Ledger(behind), sync.Table(make_table())
    ledger.__enter__()
    table.__enter__()
    ledger.record("c", 1)
    parts = [table.counter("stock", method="atomic"), table.lease("job")]
    held = table.lease("held").held()
    held.__enter__()
    parent = os.getpid()
    child = os.fork()
"""
AFTER = """
    if child:
        assert os.waitpid(child, 0)[1] == 0
        ledger.record("c", 1)
        print("parent has", ledger.total("c", max_age=0).value)
        assert table.lease("held").look().owner
        held.__exit__(None, None, None)
        ledger.close()
        table.close()
"""


def forked(child: str) -> list[str]:
    """Run a program in which a child does this, and return what both say."""
    indented = "if not child:\n" + "".join(f"    {line}\n" for line in dedent(child).split("\n"))
    program = dedent(BEFORE) + indented + dedent(AFTER)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDEVMODE": "1"},
    )
    # Of a busy machine asyncio's debug mode says which step took long: that is no fault.
    errors = [line for line in ran.stderr.splitlines() if not line.startswith("Executing <")]
    assert errors == []
    assert ran.returncode == 0
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_a_child_is_refused_what_its_parent_opened() -> None:
    """Each call says so and names both processes; nothing hangs, not even the end of the child."""
    told = forked("""
        for call in (
            lambda: ledger.record("c", 1),
            lambda: table.ledger.total("c"),
            lambda: parts[0].add(1),
            lambda: parts[1].acquire(),
        ):
            try:
                call()
            except LedgerError as error:
                print(str(error).replace(str(parent), "P").replace(str(os.getpid()), "C"))
    """)
    line = (
        "opened in process P, and process C is a fork of it: open it after the fork, in each"
        " process"
    )
    assert told == [line] * 4 + ["parent has 2"]


@pytest.mark.slow
def test_a_child_closes_nothing_of_its_parent() -> None:
    """Closed in the child, as by the end of a `with`, or dropped, it stays open in the parent."""
    told = forked("""
        ledger.close()
        del table, parts
        print("child closed")
    """)
    assert told == ["child closed", "parent has 2"]


@pytest.mark.slow
def test_a_child_leaves_the_blocks_of_its_parent() -> None:
    """A lease that the parent holds stays held, whichever way the child leaves the block."""
    told = forked("""
        held.__exit__(None, None, None)
        held.__exit__(KeyError, KeyError("mine"), None)
        print("child left")
    """)
    assert told == ["child left", "parent has 2"]


@pytest.mark.slow
def test_a_child_opens_it_anew() -> None:
    """Opened in the child it is usable there; what was made of the parent's stays refused."""
    told = forked("""
        with ledger, table:
            print("child has", ledger.total("c", max_age=0).value)
            table.counter("stock", method="atomic").add(1)
            try:
                parts[0].add(1)
            except LedgerError as error:
                print("refused")
    """)
    assert told == ["child has 1", "refused", "parent has 2"]
