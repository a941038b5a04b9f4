"""What type checkers say: of each example of each page, and of the types of the public names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import needs
from support.examples import ROOT, Example, examples

UNTYPED = frozenset({"celery"})
"""Libraries without types: what an example does with them is unknown to a checker."""
PUBLIC = ("ledger.sync", "ledger.testing")
"""What they export and refer to is the public face; `ledger` itself names all rooms."""


def is_typed(example: Example) -> bool:
    """Return whether all that an example imports has types."""
    return not any(f"from {library}" in example.code for library in UNTYPED)


@pytest.fixture
def pages(tmp_path: Path) -> list[str]:
    """Return a file for each example."""
    files = []
    for example in filter(is_typed, examples()):
        name = str(example).replace("/", "_").replace(":", "_").replace(".md", "")
        file = tmp_path / f"{name}.py"
        file.write_text(example.code, encoding="utf-8")
        files.append(str(file))
    assert len(files) > 15
    return files


def run(*command: str, folder: Path) -> str:
    """Run a type checker in a folder without settings of this project; return what it says."""
    own = Path(sys.executable).parent  # whose libraries --verifytypes looks at
    environment = {
        **os.environ,
        "MYPYPATH": str(ROOT),
        "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return f"{ran.returncode}\n{ran.stdout}{ran.stderr}"


@pytest.mark.slow
@pytest.mark.tools("mypy")
def test_mypy_accepts_every_example(pages: list[str], tmp_path: Path) -> None:
    """Strict, and without the plugin of pydantic, as a user may run it."""
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    told = run(
        *(sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={tmp_path}"),
        *pages,
        folder=tmp_path,
    )
    assert told.startswith("0\n"), told


@pytest.mark.slow
@pytest.mark.tools("pyright")
def test_pyright_accepts_every_example(pages: list[str], tmp_path: Path) -> None:
    """At the level that it takes by itself."""
    checker = needs.program("basedpyright")
    told = run(
        *(checker, "--level=error", f"--pythonpath={sys.executable}"), *pages, folder=tmp_path
    )
    assert told.startswith("0\n"), told


@pytest.mark.slow
@pytest.mark.tools("pyright")
@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_have_declared_types(module: str, tmp_path: Path) -> None:
    """What a checker would have to infer, it may infer otherwise than another one."""
    checker = needs.program("basedpyright")
    told = run(checker, "--verifytypes", module, "--ignoreexternal", folder=tmp_path)
    assert "Type completeness score: 100%" in told, told
