"""The names of `ledger`: every error that a caller can meet, loaded when first used."""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module

import pytest
from support.sources import module_trees

import ledger
from ledger.core import errors

CONNECTIONS = frozenset({"aiobotocore", "boto3", "botocore", "moto", "prometheus_client", "ssl"})
TOOLS = frozenset({"pydantic_settings", "rich", "typer"})
HEAVY = CONNECTIONS | TOOLS | {"anyio", "asyncio", "pydantic", "yaml"}
"""What `import ledger` may not load."""
HEAVY_FOR_LEDGER = (CONNECTIONS | TOOLS) - {"ssl"}  # asyncio loads ssl
"""What `from ledger import Ledger, Settings` may not load: that waits until one is opened."""
LAZY = ("ledger.runtime", "ledger.runtime.lazy_names")
"""What loads public names when they are first used."""
WIRE = (
    "ledger.store",
    "ledger.runtime.aws_answers",
    "ledger.local",
    "ledger.settings.sources",
)
"""Rooms whose inner errors (HTTP answers, pydantic's) are translated before a caller sees them."""


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new interpreter."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Return every module of both packages, parsed."""
    return [
        (".".join(path.with_suffix("").parts).removesuffix(".__init__"), tree)
        for path, tree in module_trees().items()
    ]


def documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the public functions and classes of a module, with their docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            text = ast.get_docstring(node)
            if text and not re.match(r"_[^_]", node.name):
                yield node.name, text


def raised(text: str) -> Iterator[str]:
    """Yield the errors that the `Raises:` section of a docstring names."""
    _, _, after = text.partition("Raises:\n")
    section, _, _ = after.partition("\n\n")
    for names in re.findall(r"^    ([A-Z]\w+(?:, [A-Z]\w+)*):", section, flags=re.MULTILINE):
        yield from names.split(", ")


def named() -> list[tuple[str, str]]:
    """Return each public place that names an error in its `Raises:`, with the error's name.

    The demo is a command alone, whose errors nobody catches.
    """
    return [
        (f"{module}.{name}", error)
        for module, tree in modules()
        if not module.startswith((*WIRE, "ledger.demo."))
        and not any(part[0] == "_" for part in module.split("."))
        for name, text in documented(tree)
        for error in raised(text)
    ]


@pytest.mark.slow
def test_every_error_of_a_public_docstring_is_a_name_of_the_package() -> None:
    """What a docstring says may be raised can be imported from `ledger`, or is Python's own."""
    found = named()
    assert len(found) > 200
    unknown = [
        (place, error)
        for place, error in found
        if not hasattr(ledger, error) and not hasattr(builtins, error)
    ]
    assert unknown == []


@pytest.mark.slow
def test_every_error_of_the_packages_is_in_the_tree() -> None:
    """No error is defined elsewhere, but for the laboratory's; each is drawn below its own base."""
    tree = drawn(errors.__doc__ or "")
    outside = [
        f"{module}.{node.name}"
        for module, parsed in modules()
        if module != errors.__name__ and not module.startswith("ledger.demo.")
        for node in ast.walk(parsed)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in tree
    ]
    assert outside == []
    real = {
        name: one.__bases__[0].__name__
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, errors.LedgerError)
    }
    assert tree == real


def drawn(text: str) -> dict[str, str]:
    """Return each error of a drawn tree with the one above it."""
    above: list[str] = []
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+)\b", line)
        if match:
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            found[match[2]] = above[depth - 1] if depth else "Exception"
    return found


def test_every_public_name_is_there() -> None:
    """Each public name is loaded from its module, and listed by `dir`."""
    for name in ledger.__all__:
        place = import_module(ledger._PLACES.get(name, "ledger.core.errors"))
        assert getattr(place, name) is getattr(ledger, name), name
    assert set(ledger.__all__) <= set(dir(ledger))


def test_every_error_is_public() -> None:
    """All of the tree is exported; a wrong name is an AttributeError as ever."""
    assert set(drawn(errors.__doc__ or "")) <= set(ledger.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Ledgr'"):
        _ = ledger.Ledgr  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import ledger` loads what loads its names, and none of the libraries below it."""
    found = loaded_by("import ledger")
    assert found & HEAVY == set()
    assert own(found) == {"ledger", *LAZY}


def test_the_plugin_of_pytest_loads_nothing_heavy() -> None:
    """Every run of a program that names it imports it, whatever it tests."""
    found = loaded_by("import ledger.testing.plugin") - loaded_by("import pytest")
    assert {name for name in found if "." not in name} == {"ledger"}
    assert own(found) == {"ledger", *LAZY, "ledger.testing", "ledger.testing.plugin"}


def own(found: Iterable[str]) -> set[str]:
    """Return the modules of ours among these."""
    return {name for name in found if name.startswith(("ledger", "compactor"))}


def test_importing_the_ledger_loads_no_connections_and_no_pipeline() -> None:
    """`from ledger import Ledger, Settings` leaves connections, metrics and pipeline for later."""
    found = loaded_by("from ledger import Ledger, Settings")
    assert found & HEAVY_FOR_LEDGER == set()
    apart = ("compactor", "ledger.commands", "ledger.local", "ledger.pipeline")
    assert [name for name in found if name.startswith(apart)] == []
