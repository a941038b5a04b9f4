"""What is pinned: packages in ranges that the package allows, actions by commits."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8")
PINS = dict(line.split("==") for line in CONSTRAINTS.splitlines() if not line.startswith("#"))
EXTRAS = ("client", "kafka", "otel", "parquet", "service")
WANTED = [
    Requirement(text)
    for group in (
        PROJECT["dependencies"],
        *(PROJECT["optional-dependencies"][name] for name in EXTRAS),
    )
    for text in group
]


@pytest.mark.parametrize("wanted", WANTED, ids=lambda one: one.name)
def test_each_pin_lies_in_the_range_of_the_package(wanted: Requirement) -> None:
    """Each dependency has a pin, and the package takes that version."""
    assert wanted.specifier.contains(PINS[canonicalize_name(wanted.name)])


def needed_by(name: str) -> Iterator[Requirement]:
    """Yield what a pinned package needs here; nothing if another version of it is installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return
    if found.version == PINS[name]:
        for needed in map(Requirement, found.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                yield needed


def test_the_pins_fit_each_other() -> None:
    """What a pinned package needs is pinned as well, in the range that it takes."""
    needs = [(name, needed) for name in PINS for needed in needed_by(name)]
    assert needs
    assert [
        f"{name} needs {needed}"
        for name, needed in needs
        if not needed.specifier.contains(PINS.get(canonicalize_name(needed.name), "0"))
    ] == []


def test_constraints_are_names_and_versions_alone() -> None:
    """No host, path, hash or option: any registry serves."""
    for name, version in PINS.items():
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert re.fullmatch(r"[0-9][0-9a-z.]*", version)


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved; the version stands beside the commit, for people."""
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for line in workflow.read_text(encoding="utf-8").splitlines():
            if "uses:" in line:
                assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v[0-9.]+$", line), line
