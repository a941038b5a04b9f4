"""The house stays light: sizes, names and pages within the limits of `tests/house.toml`."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from support.prose import GENERATED, limits_of, pages, plain, words
from support.sources import PACKAGES, ROOT, module_trees

HOUSE: Mapping[str, Any] = tomllib.loads((ROOT / "tests/house.toml").read_text(encoding="utf-8"))
LIMITS: Mapping[str, int] = HOUSE["limits"]
LOADED = "from ledger import Table\nimport sys\nprint(*sys.modules)"
REASON_WORDS_MIN = 8
ROOM = 0.1
"""How far a limit may lie above its count: more is a limit that guards nothing."""


@cache
def modules() -> Mapping[str, ast.Module]:
    """Return every module of the product, parsed, by its path; packages' faces left out."""
    return {
        path.as_posix(): tree for path, tree in module_trees().items() if path.name != "__init__.py"
    }


def allowed(kind: str, of: str) -> int:
    """Return the limit of a kind for a module, a class or a function."""
    own = [one[kind] for one in HOUSE["exceptions"] if one["of"] == of and kind in one]
    return own[0] if own else LIMITS[kind]


def parameters() -> Iterator[tuple[str, int]]:
    """Yield each function and constructor with the number of its parameters."""
    for path, tree in modules().items():
        yield from parameters_of(path, tree)


def parameters_of(path: str, tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield those of a module."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    owners: list[ast.Module | ast.ClassDef] = [tree, *classes]
    for owner in owners:
        for node in owner.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [one.arg for one in given if one.arg not in {"self", "cls"}]
                holder = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
                yield f"{path}::{holder}{node.name}", len(names)


def test_every_exception_has_a_reason_and_is_needed() -> None:
    """Of at least eight words, so that a reviewer can disagree with it; what it names is there."""
    counts = {**lines_of_modules(), **dict(parameters())}
    for one in HOUSE["exceptions"]:
        assert len(one["why"].split()) >= REASON_WORDS_MIN, one
        assert one["of"] in counts, one
        assert counts[one["of"]] > LIMITS["parameters" if "parameters" in one else "module_lines"]


def room_of(path: str) -> str:
    """Return the folder a module belongs to: a package, or a folder right under `ledger`."""
    top, *inner = Path(path).parent.parts
    return "/".join((top, *inner[:1])) if top == "ledger" else top


def test_modules_are_few() -> None:
    """In all, and in each room; a new room needs a number of its own."""
    rooms = Counter(room_of(path) for path in modules())
    limits = HOUSE["modules_per_room"]
    over = {room: count for room, count in rooms.items() if count > limits.get(room, 3)}
    assert not over
    assert len(modules()) <= LIMITS["modules"]
    slack = {room: n for room, n in limits.items() if n - rooms[room] > max(2, ROOM * n)}
    assert not slack, "lower these"


def test_modules_are_short() -> None:
    """None is longer than a reader takes in at one go."""
    lines = lines_of_modules()
    assert not {path: n for path, n in lines.items() if n > allowed("module_lines", path)}


def lines_of_modules() -> Mapping[str, int]:
    """Return the lines of each module."""
    return {path: len((ROOT / path).read_bytes().splitlines()) for path in modules()}


def test_functions_take_few_parameters() -> None:
    """More of them are an object that has no name yet. Commands take one value of options."""
    assert not {name: n for name, n in parameters() if n > allowed("parameters", name)}


def test_a_class_name_means_one_thing() -> None:
    """But for the few that library, client and `sync` share on purpose."""
    assert len(shared_class_names()) <= LIMITS["class_names_shared"]


def shared_class_names() -> list[str]:
    """Return the names that public classes of two or more modules bear."""
    where: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].add(path)
    return [name for name, paths in where.items() if len(paths) > 1]


def test_modules_are_nouns() -> None:
    """A module is a noun of the domain, a function a verb."""
    assert len(participles()) <= LIMITS["participle_modules"]


def participles() -> list[str]:
    """Return the modules that are named for what somebody does or did."""
    return [path for path in modules() if re.search(r"(ing|ed)\.py$", path)]


def test_a_table_loads_few_modules() -> None:
    """`from ledger import Table` is what every program pays for at its start."""
    assert PACKAGES[0] in loaded_by_table()
    assert len(loaded_by_table()) <= LIMITS["modules_loaded_by_table"]


@cache
def loaded_by_table() -> Sequence[str]:
    """Return the own modules that a new process has after it imported `Table`."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in ran.stdout.split() if name.partition(".")[0] in PACKAGES]


def test_pages_are_few_words() -> None:
    """All pages that somebody writes; the changelog grows with the releases."""
    assert words_of_pages() <= LIMITS["markdown_words"]


def words_of_pages() -> int:
    """Count the words of the pages outside code, as `support.prose` does.

    The changelog and pages that a program makes are left out.
    """
    written = [page for page in pages() if limits_of(page) is not GENERATED]
    counted = [ROOT / page for page in written if page != "CHANGELOG.md"]
    return sum(len(words(plain(page.read_text(encoding="utf-8")))) for page in counted)


def test_no_limit_lies_far_above_its_count() -> None:
    """What became lighter stays so."""
    counts = {
        "modules": len(modules()),
        "class_names_shared": len(shared_class_names()),
        "participle_modules": len(participles()),
        "modules_loaded_by_table": len(loaded_by_table()),
        "markdown_words": words_of_pages(),
    }
    assert not {kind: n for kind, n in counts.items() if LIMITS[kind] - n > ROOM * n}, "lower these"


def test_a_wide_function_is_found() -> None:
    """The guard counts keywords and positions, and leaves out the object itself."""
    tree = ast.parse("class A:\n    def f(self, a, /, b, *, c): ...\ndef g(): ...")
    assert dict(parameters_of("a.py", tree)) == {"a.py::A.f": 3, "a.py::g": 0}
