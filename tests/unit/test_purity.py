"""Modules that call themselves pure are pure, and rest on nothing but modules that are."""

import ast
import re
from functools import cache
from pathlib import Path

import lab
import proof
import pytest

import compactor
import ledger

MARKER = "Pure: no clock, no randomness, no I/O."
CLAIM = re.compile(r"\b[Pp]ure\b")
FORBIDDEN = frozenset(
    {
        *("aiobotocore", "botocore", "boto3", "aiohttp", "anyio", "asyncio", "prometheus_client"),
        *("os", "random", "rich", "secrets", "shutil", "socket", "ssl", "subprocess", "tempfile"),
        *("threading", "time", "typer", "uuid"),
    }
)
READS_A_CLOCK = frozenset({"now", "today", "utcnow"})
DOES_IO = frozenset({"input", "open", "print"})
VALUES = ("ledger.settings",)
"""Settings are values passed in as arguments, whose making reads a file."""


@cache
def sources() -> dict[str, str]:
    """Return the text of every module of the product by its name."""
    found = {}
    for package in (ledger, compactor, lab, proof):
        root = Path(str(package.__file__)).parent
        for path in root.rglob("*.py"):
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path.read_text(encoding="utf-8")
    return found


@cache
def pure_modules() -> frozenset[str]:
    """Return the names of all modules that call themselves pure."""
    return frozenset(name for name, source in sources().items() if is_marked(source))


def is_marked(source: str) -> bool:
    """Return whether the docstring of a module ends with the marker."""
    return MARKER in source and docstring(source).endswith("\n" + MARKER)


def docstring(source: str) -> str:
    """Return the docstring of a module, or nothing."""
    return ast.get_docstring(ast.parse(source)) or ""


def faults(source: str) -> list[str]:
    """Return what keeps a module's text from being pure, one line each."""
    nodes = list(ast.walk(ast.parse(source)))
    found = [line for name in imported(nodes) if (line := _import_fault(name))]
    found += [f"calls {name}" for name in _called(nodes)]
    found += ["awaits" for node in nodes if isinstance(node, ast.Await)]
    return found


def imported(nodes: list[ast.AST]) -> set[str]:
    """Return the modules that these nodes import."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{one.name}" for one in node.names}
            modules = inner & sources().keys()
            names |= modules
            if modules != inner:
                names.add(node.module or "")
    return names


def _import_fault(name: str) -> str | None:
    if name.partition(".")[0] in FORBIDDEN:
        return f"imports {name}"
    is_ours = name in sources() and not name.startswith(VALUES)
    return f"imports {name}, which is not pure" if is_ours and name not in pure_modules() else None


def _called(nodes: list[ast.AST]) -> list[str]:
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    plain = [name.id for name in called if isinstance(name, ast.Name) and name.id in DOES_IO]
    clocks = [
        ast.unparse(attribute)
        for attribute in called
        if isinstance(attribute, ast.Attribute)
        and attribute.attr in READS_A_CLOCK
        and ast.unparse(attribute.value) in {"datetime", "date", "datetime.datetime"}
    ]
    return plain + clocks


def test_what_calls_itself_pure_is() -> None:
    """A pure module imports no clock, randomness or I/O, uses none, and rests on pure ones only."""
    found = {name: faults(sources()[name]) for name in pure_modules()}
    assert {name: impure for name, impure in found.items() if impure} == {}


def test_the_pure_part_is_found() -> None:
    """All of the core, and the deciders that the proof rests on, carry the marker."""
    core = {
        name
        for name, source in sources().items()
        if name.startswith("ledger.core.") and len(ast.parse(source).body) > 1
    }
    assert core
    assert core <= pure_modules()
    deciders = {
        "compactor.agenda",
        "compactor.merge_plan",
        "ledger.administration.table_plan",
        "ledger.pipeline.core.transitions",
        "ledger.primitives.leases.lease_rules",
        "ledger.store.reads",
        "ledger.store.writes",
        "ledger.writes.entry_plan",
    }
    assert deciders <= pure_modules()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import random", ["imports random"]),
        ("from os import path", ["imports os"]),
        ("from botocore.exceptions import ClientError", ["imports botocore.exceptions"]),
        (
            "from ledger.reads.reader import Reader",
            ["imports ledger.reads.reader, which is not pure"],
        ),
        ("from ledger.runtime import clock", ["imports ledger.runtime.clock, which is not pure"]),
        ("started = datetime.now(UTC)", ["calls datetime.now"]),
        ("lines = open('regions.yaml')", ["calls open"]),
        ("async def read(store):\n    return await store.get()", ["awaits"]),
        ("from ledger.core import ids", []),
    ],
)
def test_a_module_that_breaks_the_rule_is_found(line: str, found: list[str]) -> None:
    """Each kind of impurity is named."""
    source = f'"""A decision.\n\n{MARKER}\n"""\n{line}\n'
    assert is_marked(source)
    assert faults(source) == found


def test_no_module_calls_itself_pure_without_the_marker() -> None:
    """The word is a claim: a module that makes it is checked, or does not use it."""
    claims = {
        name
        for name, source in sources().items()
        if CLAIM.search(source) and CLAIM.search(docstring(source)) and not name.endswith(".core")
    }
    assert claims - pure_modules() == set()
