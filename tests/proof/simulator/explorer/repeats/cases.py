"""The cases of entries that are put again, and the rules that are broken.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import replace

from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.mutants import MUTANTS as MERGING
from proof.simulator.explorer.repeats.state import Case

_ANSWERED = Case(answers=True)
_ONCE = replace(_ANSWERED, repeats=0)
_READER = replace(_ONCE, reader=1)
CASES: Mapping[str, Case] = {
    "one-repeat": Case(),
    "two-repeats-three-regions": Case(regions=3, repeats=2),
    "lost": Case(regions=3, loses=True),
    "answered": replace(_ANSWERED, repeats=2),
    "answered-three-regions": replace(_ANSWERED, regions=3),
    "answered-two-entries": replace(_ANSWERED, entries=2),
    "answered-by-the-next": replace(_ANSWERED, entries=2, carried=True),
    "answered-two-leaders": replace(_ANSWERED, leaders=2, twice=True),
    "answered-reader": _READER,
    "answered-lost": replace(_ANSWERED, regions=3, loses=True),
}
LARGE: Mapping[str, Case] = {
    "answered-reader-two-entries": replace(_READER, entries=2),
    "answered-three-regions-two-leaders": replace(_ANSWERED, regions=3, leaders=2, twice=True),
    "answered-lost-two-leaders": replace(_ANSWERED, regions=3, leaders=2, loses=True),
    "answered-by-the-next-three-regions": replace(_ANSWERED, regions=3, entries=2, carried=True),
    "answered-two-leaders-two-entries": replace(_ANSWERED, entries=2, leaders=2),
}
MUTANTS: Mapping[str, BrokenRule] = {
    "merged-young": BrokenRule(
        "an entry is merged before it is older than settle", Case(settles=False)
    ),
    "forgotten-old": BrokenRule(
        "an entry is merged at once, and forgotten once it is old and no region shows it",
        Case(early=True),
    ),
    "older-delete": BrokenRule(
        "a delete of an old entry may have an older stamp than a put of it",
        Case(regions=3, stamps=False),
    ),
    "lost-forgotten": BrokenRule(
        "the ids of what a lost region may have written are forgotten",
        Case(regions=3, loses=True, remembers=False),
    ),
    "answered-though-repeated": BrokenRule(
        "an entry is said to be answered that was put again, or will be",
        replace(_ANSWERED, promises=False),
    ),
    "answered-at-home": BrokenRule(
        "answered entries that home shows are merged, though another region has not got them",
        replace(_ONCE, deciding=MERGING["home-candidates"].deciding),
    ),
    "answered-gone-at-home": BrokenRule(
        "ids of answered entries are dropped when home does not show them",
        replace(_ONCE, deciding=MERGING["home-gone"].deciding),
    ),
    "answered-deleted-early": BrokenRule(
        "answered entries are deleted before every region shows the net",
        replace(_ONCE, deciding=MERGING["early-deletes"].deciding),
    ),
    "answered-without-hold": BrokenRule(
        "observations are acted on at once, while a reader reads", replace(_READER, holds=False)
    ),
}
