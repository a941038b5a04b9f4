"""The cases of a lost region that are explored; the large ones take minutes.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping

from proof.simulator.explorer.loss.state import Case

SMALL: Mapping[str, Case] = {
    "two-regions": Case(entries=2),
    "three-regions": Case(regions=3, ahead=True),
    "two-operators": Case(regions=3, ahead=True, operators=2),
    "two-operators-two-regions": Case(ahead=True, operators=2),
    "not-home": Case(regions=3, ahead=True, home=1, back=True),
    "lost-one-before": Case(regions=3, always=True),
    "repeats-three-regions": Case(regions=3, ahead=True, repeats=True),
    "repeats-two-leaders": Case(leaders=2, ahead=True, repeats=True),
    "repeats-not-home": Case(regions=3, ahead=True, home=1, repeats=True),
}
LARGE: Mapping[str, Case] = {
    "return-and-reader-two-regions": Case(ahead=True, reader=True, back=True),
    "three-entries": Case(entries=3, ahead=True),
    "two-leaders-two-entries": Case(entries=2, leaders=2, ahead=True),
    "two-leaders-three-regions": Case(regions=3, leaders=2, ahead=True),
    "two-leaders-not-home": Case(regions=3, home=1, leaders=2, back=True, ahead=True),
    "two-leaders-lost-one-before": Case(regions=3, always=True, leaders=2, late=False),
    "two-entries-three-regions": Case(regions=3, entries=2, ahead=True),
    "return-and-reader": Case(regions=3, back=True, reader=True, ahead=True),
}
