"""Mutants of books: what a net keeps of its transfers, and when it has no room."""

from ledger.core import signatures
from proof.simulator.book_plan import bounds_of, keeps_books, shares_items
from proof.simulator.edit import Edit
from proof.simulator.forger import is_signed
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import Mutant


def has_little_room(seed: int) -> bool:
    """Return whether the nets of books have little room in the world of a seed."""
    return any(bounds_of(seed))


def signs_books(seed: int) -> bool:
    """Return whether a world has books, and signs nets."""
    return is_signed(seed) and keeps_books(seed)


def loses_books(seed: int) -> bool:
    """Return whether a world has books, and loses a region."""
    return is_lossy(seed) and keeps_books(seed)


UNDIGESTED = Edit("ledger.core.entry:_digest", "if net.accounts is not None:", "if False:")
BOOK_MUTANTS = (
    Mutant(
        "legs-not-compared",
        "a transfer is merged once every region shows it with the same legs",
        "a key that two regions used for different transfers: one shows what the other does not",
        60,
        (Edit("ledger.core.fold:Collection.alike", "if legs != others_legs:", "if False:"),),
        first=5,
        worlds=keeps_books,
    ),
    Mutant(
        "accounts-not-added",
        "the balances of a net grow by the legs of what it merges, in the same write",
        "a transfer that is merged moves nothing any more",
        8,
        (
            Edit(
                "ledger.core.books:_with_room",
                "balances.move(legs.get(key, ()))",
                "balances.move(())",
            ),
        ),
        worlds=keeps_books,
    ),
    Mutant(
        "accounts-of-home-alone",
        "the same: by those alone, not by all that home shows",
        "what home shows and is not merged yet is moved twice",
        8,
        (
            Edit(
                "ledger.core.books:_with_room",
                "for key in taken:\n            balances",
                "for key in legs:\n            balances",
            ),
        ),
        first=4,
        worlds=keeps_books,
    ),
    Mutant(
        "accounts-not-in-digest",
        "a net whose balances are not those of its digest is refused",
        "whatever somebody else puts there is read",
        24,
        (UNDIGESTED,),
        first=3,
        worlds=keeps_books,
    ),
    Mutant(
        "accounts-not-signed",
        "a signature is of a net's balances, too (here the digest, of 8 bytes, is no hurdle)",
        "who may write, and has no key, writes balances",
        24,
        (
            UNDIGESTED,
            (
                signatures,
                "SIGNED",
                tuple(name for name in signatures.SIGNED if name != "accounts"),
            ),
        ),
        worlds=signs_books,
    ),
    Mutant(
        "zero-kept-as-old",
        "a balance that returns to 0 leaves the net",
        "it keeps the last one that it had",
        24,
        (
            Edit(
                "ledger.core.books:_with_room",
                "packed(balances.accounts())",
                "packed({\n"
                "                one: {**kept.get(one, {}), **balances.accounts().get(one, {})}\n"
                "                for one in {**kept, **balances.accounts()}\n"
                "            })",
            ),
        ),
        first=4,
        worlds=keeps_books,
    ),
    Mutant(
        "legs-not-condensed",
        "what a read has condensed keeps what its transfers moved",
        "they are counted, and move nothing",
        24,
        (Edit("ledger.core.fold:Collection._moved", "found.add(before.accounts or {})", ""),),
        first=4,
        worlds=keeps_books,
    ),
    Mutant(
        "unbalanced-taken",
        "legs that do not sum to 0 are damage",
        "an asset of a book is above what was ever there",
        8,
        (
            Edit(
                "ledger.core.books:balanced",
                "if wrong := differences(legs):",
                "if wrong := dict[str, Decimal]():",
            ),
        ),
        worlds=keeps_books,
    ),
    Mutant(
        "shared-by-its-first",
        "an item that transfers share moves what all of them move",
        "only its first is in balances, and in the net: the others are lost by merging",
        8,
        (
            Edit(
                "ledger.core.transfers:legs_in",
                'transfers_in(text_in(attribute["B"])):',
                'transfers_in(text_in(attribute["B"]))[:1]:',
            ),
        ),
        worlds=shares_items,
    ),
    Mutant(
        "shared-shown-together",
        "each transfer of an item is shown, named and reversed by itself",
        "a history shows the item as one transfer, which nobody made",
        8,
        (
            Edit(
                "ledger.core.entry:entry_of",
                "parts=_parts_of(item),\n            legs=() if",
                'parts="",\n            legs=legs_of(item) if',
            ),
        ),
        worlds=shares_items,
    ),
    Mutant(
        "book-over-its-bound",
        "a fold takes only what its net has room for",
        "the put of the net fails each time: nothing is merged any more",
        8,
        (
            Edit(
                "ledger.core.books:_with_room",
                "if len(accounts) <= ACCOUNTS_BYTES_MAX:",
                "if True:",
            ),
        ),
        worlds=has_little_room,
    ),
    Mutant(
        "fold-not-halved",
        "a fold that does not fit takes fewer, down to one",
        "a book that is nearly full is not merged any more",
        8,
        (
            Edit(
                "ledger.core.books:_with_room",
                "opening = opening[: len(opening) // 2]",
                "return (), before",
            ),
        ),
        worlds=has_little_room,
    ),
    Mutant(
        "successor-without-accounts",
        "the net that succeeds one of a lost home has its balances",
        "all that was merged before the loss is moved back",
        24,
        (
            Edit(
                "compactor.succession:_successor",
                "version=version, home",
                "version=version, accounts=None, home",
            ),
        ),
        worlds=loses_books,
    ),
)
