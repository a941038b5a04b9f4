"""Many versioned records put by one call, in the deterministic world, drawn whole from seeds.

Processes bring the same records' versions in disorder, several of one record in one call, while
answers are lost, requests land late, and of several writes each may have a fate of its own.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import anyio
import pytest
from proof.simulator import loop
from support.clients import FAULTY, Clients, together
from support.ledgers import HOME

from ledger.core.entry import Item, Key
from ledger.core.errors import StoreError
from ledger.primitives.versions import ConditionGuard, Skipped, version_of
from ledger.primitives.versions.condition import ManyPuts, Versioned
from ledger.store.conditions import Condition
from ledger.store.writes import Unknown

SEEDS = range(15)
RECORDS, PROCESSES, CALLS = 4, 3, 3
VERSIONS = 12
DELIVERIES_MAX = 80
SETTLED_SECONDS = 120.0


class Witness:
    """Notes the versions that the home region shows of each record, in order."""

    def __init__(self) -> None:
        self.shown: dict[str, list[int]] = {}

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Take in a write."""
        if region == HOME:
            self.shown.setdefault(key[1], []).append(version_of(item) or 0)

    def changed(self, region: str, partition: str) -> None:
        """Nothing to take in."""


@dataclass
class Arrivals:
    """What processes bring, and what the table shows of it."""

    seed: int

    async def run(self) -> None:
        """Bring all versions, some twice, and judge."""
        draw = Random(self.seed)  # noqa: S311 (repeatable)
        clients = Clients(seed=self.seed, faults=replace(FAULTY, scattered=0.05))
        witness = Witness()
        shown = witness.shown
        clients.world.observers.append(witness)
        brought: list[tuple[str, int]] = []

        async def bring(number: int) -> None:
            client = clients.client(f"process {number}")
            guard = ConditionGuard(client.store, services=client.services)
            for _ in range(CALLS):
                call = [
                    (f"{draw.randrange(RECORDS)}", draw.randrange(VERSIONS))
                    for _ in range(draw.randrange(2, 8))
                ]
                brought.extend(call)
                await deliver(guard, call)

        async def deliver(guard: ConditionGuard, call: list[tuple[str, int]]) -> None:
            for _ in range(DELIVERIES_MAX):
                with suppress(StoreError):
                    told = await guard.put_many([(record(name), one) for name, one in call])
                    for (name, version), result in zip(call, told, strict=True):
                        if not isinstance(result, Unknown):
                            known = result.newest if isinstance(result, Skipped) else version
                            assert max(shown[name]) >= known
                    if not any(isinstance(result, Unknown) for result in told):
                        return
            raise AssertionError("a call never had an end")

        await together([partial(bring, number) for number in range(PROCESSES)])
        await anyio.sleep(SETTLED_SECONDS)
        for name, versions in shown.items():
            assert versions == sorted(set(versions)), "older after newer, or one twice"
            assert versions[-1] == max(version for one, version in brought if one == name)


def record(name: str) -> Item:
    """Return a record without its version."""
    return {"pk": {"S": "record"}, "sk": {"S": name}}


def test_many_records_only_get_newer() -> None:
    """In disorder, twice, without answers, in parts: newer only, once each, and no loss."""
    for seed in SEEDS:
        loop.run(Arrivals(seed).run)


def test_mutant_what_had_an_item_in_its_way_is_taken_for_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where records that are there are not put again by themselves, versions are lost."""

    async def done(
        _self: ManyPuts, part: Sequence[Versioned], _doubts: object
    ) -> list[tuple[Skipped, bool]]:
        return [(Skipped(version, version), True) for _, version in part]

    monkeypatch.setattr(ManyPuts, "_alone", done)
    assert found_out() > len(SEEDS) / 2


def test_mutant_without_a_condition_older_overwrites_newer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same without the condition on the version is found out by the same judge."""
    monkeypatch.setattr("ledger.primitives.versions.version_rules.VersionRules.newer", no_condition)
    assert found_out() > len(SEEDS) / 2


def no_condition(_rules: object, _version: int) -> Condition | None:
    """Ask nothing of what is there."""
    return None


def found_out() -> int:
    """Return in how many worlds the judge objects."""
    found = 0
    for seed in SEEDS:
        try:
            loop.run(Arrivals(seed).run)
        except (AssertionError, ExceptionGroup):
            found += 1
    return found
