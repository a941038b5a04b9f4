"""Every page speaks plainly: within the limits of its kind, which `support.prose` counts."""

import re
import subprocess
import sys
import tomllib

import pytest
from proof.simulator.budget_mutants import BUDGET_MUTANTS
from proof.simulator.clock_mutants import CLOCK_MUTANTS
from proof.simulator.credit_mutants import CREDIT_MUTANTS
from proof.simulator.explorer.limits.cases import CATALOGUE
from proof.simulator.limit_mutants import LIMIT_MUTANTS
from support.prose import PRONOUN_ONE, ROOT, faults, limits_of, pages, plain


@pytest.mark.parametrize("page", pages())
def test_a_page_keeps_the_limits_of_its_kind(page: str) -> None:
    """Its length, its words that hide who does what, its long sentences and lines."""
    assert faults(page, (ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [page for page in pages() if "/internals/" in page])
def test_the_modules_that_a_page_names_are_there(page: str) -> None:
    """By its path from the root, or by a part of it where the room is said before."""
    named = set(re.findall(r"`([\w/.]+\.py)`", (ROOT / page).read_text(encoding="utf-8")))
    rooms = (ROOT / room for room in ("compactor", "ledger", "tests"))
    paths = "\n".join(path.as_posix() + "\n" for room in rooms for path in room.rglob("*.py"))
    assert {name for name in named if f"/{name}\n" not in paths} == set()


def test_budgets_have_a_rule_for_each_of_their_mutants() -> None:
    """And name no mutant that is not there."""
    mutants = (*BUDGET_MUTANTS, *CREDIT_MUTANTS, *LIMIT_MUTANTS, *CLOCK_MUTANTS)
    page = (ROOT / "ledger/docs/internals/budgets.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", page))
    broken = {mutant.name for mutant in mutants} | set(CATALOGUE.mutants)
    assert broken <= named
    assert {name for name in named if "-" in name} <= broken


def test_the_map_has_the_floors_of_the_linter() -> None:
    """Each room on the floor that `lint-imports` holds it to, the laboratory on no floor."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"].startswith("no import"))
    floors = enumerate(reversed(layers), 1)
    checked = {(floor, room.strip()) for floor, layer in floors for room in layer.split(":")}
    page = (ROOT / "ledger/docs/internals/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([\w/]+)(?:\.py)?` \|", page, re.MULTILINE)
    drawn = {(int(floor), ".".join(room.split("/")[:2])) for floor, room in rows}
    assert drawn == {(floor, room) for floor, room in checked if room not in {"lab", "proof"}}


GOOD = "You ask, and the service answers you.\n" * 10
PLANTED = {
    "700 words": "You count the words of this page.\n" * 100,
    "9% of sentences": GOOD + "You " + "go on\n" * 20 + "here.",
    "'what' 4 times": GOOD + "You say what you know. " * 4,
    "'one' 4 times": GOOD + "You take each one that fits. " * 4,
    "'it' 5 times": GOOD + "You see it. " * 3 + "You see its name. " * 2,
    "'you' 0 times": "The service answers.\n" * 10,
    "1 lines are too long, first 'x": GOOD + "x" * 131,
    "1 lines are too long, first '|": GOOD + "| " + "x" * 220,
    "'to be done'": GOOD + "Nothing is to be done.",
    "'earlier release'": GOOD + "An earlier release did so.",
    "600 words": "<!-- prose: words=650 because of it -->\n" + "You ask.\n" * 300,
    "a page raises one": "<!-- prose: tone=9 because this page is special -->\n" + GOOD,
    "a page raises one limit, of": "<!-- prose: it=99 because of a good reason -->\n" * 2 + GOOD,
    "it is within its limit": "<!-- prose: it=99 because of a good reason -->\n" + GOOD,
}


@pytest.mark.parametrize(("said", "text"), PLANTED.items(), ids=PLANTED)
def test_each_rule_is_found_by_a_page_that_breaks_it(said: str, text: str) -> None:
    """A rule that no page can break guards nothing."""
    (fault,) = faults("ledger/docs/howto/planted.md", text)
    assert fault.startswith(said)


def test_a_good_page_has_no_fault() -> None:
    """The planted pages differ from this text by their fault alone."""
    assert faults("ledger/docs/howto/planted.md", GOOD) == []


def test_a_page_raises_one_limit_with_a_reason() -> None:
    """In its first five lines; further down nobody would see it."""
    raised = "<!-- prose: words=800 because two ways must stand side by side -->\n"
    assert faults("ledger/docs/howto/planted.md", raised + PLANTED["700 words"]) == []
    assert faults("ledger/docs/howto/planted.md", "\n" * 5 + raised + PLANTED["700 words"])


def test_the_path_says_the_kind() -> None:
    """The main page is short, a how-to is shorter; what is generated may be long."""
    assert limits_of("README.md").words == 650
    assert limits_of("ledger/docs/howto/a.md").words == 500
    assert limits_of("ledger/docs/internals/archive.md").words == 2_500
    assert limits_of("ledger/docs/reference/commands.md").words > 100_000


def test_prose_is_what_a_reader_reads_as_text() -> None:
    """Code, headings and addresses are no prose; the text of a link is."""
    page = "# What\n\n```sh\nwhat\n```\n[a name](what.md) and `what`\n|---|---|\n    what\n"
    assert plain(page).split() == ["a", "name", "and", "X"]


def test_the_numeral_is_no_pronoun() -> None:
    """One region writes; this one does not."""
    assert not PRONOUN_ONE.search("One region writes one item, and then one after another.")
    assert len(PRONOUN_ONE.findall("This one, the old ones, and one that is new.")) == 3


def test_the_checker_runs_as_a_program() -> None:
    """Status 0 of a page without a fault, and its words, for whoever writes a page."""
    ran = subprocess.run(
        [sys.executable, "tests/support/prose.py", "tests/conformance/README.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"tests/conformance/README.md: \d{3,} words", ran.stdout)
