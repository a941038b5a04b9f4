"""What a world's books move: in nearly one world of three, drawn apart from all else.

Transfer n of a book moves 10 to the power of n from a pool to the account `all` in one asset of
its own, so that the digits of that balance show which transfers are counted; in euros something to
a guest, which every second transfer takes back, so that balances return to 0; and in a third asset
something between accounts with strange names. In some worlds a net has so little room that most
folds come to more than fits. In half of them transfers that say nothing else share items.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from proof.simulator.activity import draw_at
from proof.simulator.correcting import is_correcting
from proof.simulator.planned import BusyPeriod
from proof.simulator.randomness import stream

SHARE, COMBINED_SHARE = 1 / 3, 0.5
PATTERN = "book-*"
BOOKS = ("book-0", "book-1")
STRANGE, FORGED = "book-strange", "book-forged"
"""Books with an item that does not balance, and with a net whose balances another has changed."""
TAGS, EUROS, OTHER = "T", "EUR", "USD/2"
ALL = "all"
NAMES = ("世界", 'q"uote\\', "a b", "tökens/1")
TRANSFERS_MIN, TRANSFERS_MAX = 8, 24
SHARDS = (1, 1, 2)
BOUNDS = ((0, 0), (0, 0), (0, 0), (90, 90), (110, 80))
"""Bytes of the balances of a net at most, and from which on no account is opened; 0 for as ever."""
KINDS = {"one": 4, "keyed": 5, "many": 2, "together": 1, "twins": 2}
REPEATS_SECONDS = (5.0, 60.0, 300.0, 300.0, 3000.0)
Amounts = dict[tuple[str, str], int]
"""What is moved, or is there, by asset and account, without what is 0."""


@dataclass(frozen=True, slots=True)
class BookCall:
    """Transfers to make by one call; `repeats` (delay, region) make it once more."""

    at: float
    region: str
    kind: str
    transfers: tuple[tuple[str, int], ...]
    repeats: tuple[tuple[float, str], ...] = ()


def keeps_books(seed: int) -> bool:
    """Return whether the world of a seed has books; no correctors' world does."""
    return not is_correcting(seed) and stream(seed, "bookkeepers").random() < SHARE


def bounds_of(seed: int) -> tuple[int, int]:
    """Return the bounds of the balances of a net in a world, as in `BOUNDS`."""
    return stream(seed, "bytes of books").choice(BOUNDS) if keeps_books(seed) else (0, 0)


def shares_items(seed: int) -> bool:
    """Return whether the transfers of a world's books share items."""
    return keeps_books(seed) and stream(seed, "shared transfers").random() < COMBINED_SHARE


def shards_of(seed: int) -> dict[str, int]:
    """Return the numbers of shards of the books of a world."""
    return {BOOKS[0]: stream(seed, "shards of books").choice(SHARDS)}


def moved(book: str, number: int) -> Amounts:
    """Return what a transfer moves; its asset and account name no amount of 0."""
    chance, pair = Random(f"{book} {number}"), number // 2  # noqa: S311 (repeatable)
    amount = pair + 1 if number % 2 == 0 else -pair - 1
    one, other = chance.sample(NAMES, k=2)
    some = chance.randrange(1, 10)
    return {
        (TAGS, ALL): 10**number,
        (TAGS, f"pool/{number % 3}"): -(10**number),
        (EUROS, f"guest/{pair}"): amount,
        (EUROS, "cash"): -amount,
        (OTHER, one): some,
        (OTHER, other): -some,
    }


def added(parts: Sequence[Amounts]) -> Amounts:
    """Return what amounts come to, without what is 0."""
    sums = Amounts()
    for part in parts:
        for place, amount in part.items():
            sums[place] = sums.get(place, 0) + amount
    return {place: amount for place, amount in sums.items() if amount}


def draw_calls(
    chance: Random, regions: tuple[str, ...], busy: tuple[BusyPeriod, ...], *, twins: bool
) -> tuple[BookCall, ...]:
    """Draw the calls of the books, until each has all of its transfers."""
    names = BOOKS[: chance.choice((1, 1, 2))]
    left = {book: list(range(chance.randint(TRANSFERS_MIN, TRANSFERS_MAX))) for book in names}
    calls = list[BookCall]()
    while any(left.values()):
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "twins" and not twins:
            kind = "keyed"
        most = {"one": 1, "keyed": 1, "twins": 2}.get(kind) or chance.randint(2, 4)
        taken = list[tuple[str, int]]()
        for _ in range(most):
            open_books = [book for book, numbers in left.items() if numbers]
            if taken and kind == "twins":
                open_books = [book for book in open_books if book == taken[0][0]]
            if open_books:
                book = chance.choice(open_books)
                taken.append((book, left[book].pop(0)))
        if kind == "twins" and len(taken) == 1:
            kind = "keyed"
        repeats = [
            (chance.random() * chance.choice(REPEATS_SECONDS), chance.choice(regions))
            for _ in range(chance.randrange(4) if kind == "keyed" else 0)
        ]
        calls.append(
            BookCall(
                draw_at(chance, busy), chance.choice(regions), kind, tuple(taken), tuple(repeats)
            )
        )
    return tuple(calls)
