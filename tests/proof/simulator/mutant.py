"""What a mutant is: one rule of the ledger deliberately broken."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from proof.simulator.edit import Edit

Patch = Edit | tuple[Any, str, Any]
"""An edit of a function, or an attribute that is replaced: (owner, name, value)."""


def every_world(seed: int) -> bool:
    """Return whether a world is one of all."""
    del seed
    return True


def worlds_from(first: int, worlds: Callable[[int], bool]) -> Callable[[int], bool]:
    """Return the choice of worlds from a seed on: those before it show nothing of a rare fault."""
    return lambda seed: seed >= first and worlds(seed)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule broken.

    `rule` is the rule, `breaks` says what goes wrong without it, `patches` break the rule,
    and it must be caught within the first `seeds` seeds of those
    that `worlds` chooses: the ones that draw the fault against which the rule is. The `first` of
    them to catch it, counted from 1, is tried before the others.
    """

    name: str
    rule: str
    breaks: str
    seeds: int
    patches: tuple[Patch, ...]
    first: int = 1
    worlds: Callable[[int], bool] = every_world

    def seeds_from(self, first: int = 0, *, most: int | None = None) -> tuple[int, ...]:
        """Return the first seeds that draw its worlds: `most` of them, else as many as it needs."""
        return tuple(islice(filter(self.worlds, count(first)), most or self.seeds))

    def seeds_by_turn(self) -> tuple[int, ...]:
        """Return its seeds in the order in which they are tried."""
        seeds = self.seeds_from()
        return (seeds[self.first - 1], *seeds[: self.first - 1], *seeds[self.first :])

    @contextmanager
    def active(self) -> Iterator[None]:
        """Break the rule within the context."""
        with ExitStack() as stack:
            for patch in self.patches:
                if isinstance(patch, Edit):
                    stack.enter_context(patch.active())
                    continue
                owner, name, value = patch
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, value)
            yield
