"""What a page says is not to be had: each such sentence names the room that offers it.

A list of what the library offers where a reader would expect a denial, each tied to a public name.
Once the name is there, a paragraph that denies the matter has to name the offer.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from support.examples import ROOT, pages


class Offer(NamedTuple):
    """A public name, the words by which pages deny what it does, and the word for it."""

    name: str
    denied: str
    word: str


OFFERS = (
    Offer(
        "ledger.budgets.budget:Budget.spend",
        r"accepts? every change|no overdraft|not refuse to|no (write|change|region) can be refused"
        r"|no region can check|no limit (holds|across)|not for a limit|no threshold"
        r"|cannot be refused|can both sell|none can hold",
        "budget",
    ),
    Offer(
        "ledger.session.ledger:Ledger.reverse",
        r"cannot be (undone|taken back|reversed)|no way to (undo|take back)",
        "reverse",
    ),
    Offer("ledger.session.feed:SessionFeed.feed", r"no way to follow|no feed of", "feed"),
    Offer(
        "ledger.session.listings:SessionListings.counters", r"cannot be listed|no list of", "index"
    ),
)


def denials(text: str, offer: Offer) -> list[str]:
    """Return the paragraphs and points of a page that deny what is offered, and do not name it."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = (
        re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n|\n(?=- |\| |#)", prose)
    )
    return [
        part
        for part in parts
        if re.search(offer.denied, part, flags=re.IGNORECASE) and offer.word not in part.lower()
    ]


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: offer.word)
def test_no_page_denies_what_a_room_offers(offer: Offer) -> None:
    """Each of these names is public, and a page that says it cannot be done names it."""
    module, _, path = offer.name.partition(":")
    found: object = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)
    wrong = {
        str(page.relative_to(ROOT)): said
        for page in pages()
        if (said := denials(page.read_text(encoding="utf-8"), offer))
    }
    assert wrong == {}


def test_a_denial_is_found() -> None:
    """The sentences that pages had once."""
    for said in (
        "- **No overdraft is refused.** No region can check a sum that others change.",
        "- Not for a limit: no write can be refused by a sum that other regions change.",
    ):
        assert denials(f"# Page\n\n{said}\n", OFFERS[0]) == [said]
        assert denials(f"# Page\n\n{said} A budget can.\n", OFFERS[0]) == []
    assert Path(ROOT, "ledger/docs/reference/budgets.md").is_file()
