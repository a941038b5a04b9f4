"""What is shown in the end, beside what must be: totals of all regions, and dead letters."""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from fractions import Fraction
from pathlib import Path

from support.trial.lanes import LaneOfFiles
from support.trial.records import Traffic

from ledger import Ledger
from ledger.core import keys
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.reads import Scan

PAGES_MAX = 100_000


async def wrong_totals(config: Path, expected: Mapping[str, Fraction]) -> list[str]:
    """Return a line for each category and region that shows another total than expected.

    Counters of the table that are no expected category must show nothing.
    """
    settings = Settings.load(config)
    wrong = []
    async with AsyncExitStack() as stack:
        for region in settings.regions:
            ledger = await stack.enter_async_context(Ledger.open(settings, region=region))
            names = sorted(expected.keys() | await _counters(settings, region))
            shown = await ledger.totals(names, max_age=0)
            for name in names:
                right, value = expected.get(name, Fraction(0)), shown[name].value
                if Fraction(value) != right:
                    wrong.append(f"{region} {name}: {value}, right is {_decimal(right)}")
    return wrong


def wrong_letters(lanes: Iterable[LaneOfFiles], traffics: Iterable[Traffic]) -> list[str]:
    """Return a line for each malformed record without its letter, and each letter too many."""
    wrong = []
    for traffic in traffics:
        letters: dict[bytes, set[str]] = {}
        for lane in lanes:
            if lane.pipeline == traffic.name:
                for raw, reason in lane.letters():
                    letters.setdefault(raw, set()).add(reason)
        for raw, reason in traffic.malformed.items():
            if not any(reason in given for given in letters.get(raw, ())):
                given = sorted(letters.get(raw, ()))
                wrong.append(f"{traffic.name}: {raw[:80]!r}: not {reason!r} but {given}")
        wrong += [
            f"{traffic.name}: a letter of a good record: {raw!r}: {letters[raw]}"
            for raw in letters.keys() - traffic.malformed.keys()
        ]
    return wrong


async def _counters(settings: Settings, region: str) -> set[str]:
    found: set[str] = set()
    scan = Scan(attributes=("pk", "sk"))
    async with open_store(settings, region) as store:
        for _ in range(PAGES_MAX):
            page = await store.scan(scan)
            names = {keys.counter_of(item["pk"]["S"]) for item in page.items}
            found |= {name[0] for name in names if name is not None}
            if page.after is None:
                return found
            scan = scan.next(page)
    raise AssertionError(f"the scan does not end after {PAGES_MAX} pages")


def _decimal(number: Fraction) -> str:
    whole = number * 10**15
    return f"{int(whole) / 10**15} ({int(whole)}E-15)"
