"""What messages say of packages that are not installed can be done."""

from pathlib import Path

import ledger
from ledger.runtime.extras import install

ROOT = Path(ledger.__file__).parents[1]


def test_a_message_names_a_package_that_exists_or_this_repository() -> None:
    """The name of this distribution is on no index, and may be another's there."""
    said = install("aiokafka", extra="kafka")
    assert said == "pip install aiokafka, or from this repository pip install '.[kafka]'"


def test_nothing_says_to_install_this_distribution_by_its_name() -> None:
    """Neither in code nor in a page: whoever registers the name would be installed."""
    paths = [
        path
        for room in ("ledger", "compactor", "deploy", ".github")
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".md", ".yaml", ".service", ""} and path.is_file()
    ]
    assert len(paths) > 500
    naming = [
        str(path)
        for path in (*paths, ROOT / "README.md")
        if any(
            "multi-region-ledger" in line
            for line in path.read_text(encoding="utf-8").splitlines()
            if "pip install" in line
        )
    ]
    assert naming == []
