"""The settings files of a world's processes: most leave to the contract what it holds, some do not.

An old or mistaken file names terms of its own, those of the first contract or others: a counter's
shards, the durations of retries or of reads, another home, or not every region. Its process either
refuses it, and then starts again with the right one, or obeys the contract.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ledger.settings import Settings
from ledger.settings.model import CONTRACTED

WRONG_SHARE = 0.5
"""Of the processes, in a world with wrong files, those that start with one."""
SHARDS = {"*": 4}


@dataclass(frozen=True, slots=True)
class Files:
    """The right file of a world's processes, and the wrong ones."""

    right: Settings
    wrong: tuple[Settings, ...] = ()

    def draw(self, chance: Random, region: str | None = None) -> Settings:
        """Return the file that a process starts with, of a region if it works in one."""
        able = [file for file in self.wrong if region is None or region in file.regions]
        return chance.choice(able) if able and chance.random() < WRONG_SHARE else self.right


def right_file(settings: Settings) -> Settings:
    """Return a file that leaves to the contract what it holds."""
    named = settings.model_fields_set.difference(CONTRACTED)
    return Settings(**{name: getattr(settings, name) for name in named})


def wrong_files(
    chance: Random, first: Settings, *, times: Mapping[str, Any], reads: Mapping[str, Any]
) -> tuple[Settings, ...]:
    """Return files that say otherwise than the first contract; `times` and `reads` are other terms.

    Two of them, so that a reader and a writer, say, disagree in one thing and not in all.
    """
    right, names = right_file(first), [*first.regions]
    old = {name: getattr(first, name) for name in CONTRACTED if name in first.model_fields_set}
    others: list[Settings] = [
        right.replace(**old),
        right.replace(**old).replace(**times),
        right.replace(**times),
        right.replace(**reads),
        right.replace(shards=SHARDS),
        right.replace(home=names[1]),
        right.replace(regions={name: {} for name in names[:-1]}),
    ]
    return tuple(chance.sample(others, k=2))
