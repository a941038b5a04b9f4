from dataclasses import replace

import pytest
from lab.compare.figures import LEDGER_COMBINED
from lab.compare.options import CompareOptions
from lab.compare.participants import Participants, spent
from lab.compare.parts import contend, count_alone, write_partitioned
from lab.compare.session import compare
from lab.harness.model import Model, open_model
from proof.simulator import loop
from pydantic_core import to_json

FAULTLESS = CompareOptions(engine="model", lost=0.0)


def test_a_client_loses_the_same_answers_whatever_others_do() -> None:
    """The seed, the method and the client's name decide which of its writes get no answer."""

    async def losses(model: Model, others: int) -> list[bool]:
        participants = Participants(model, "atomic-once", "alone", 7, lost=0.3)
        client, answers = participants.client("one"), []
        crowd = [participants.client(f"other {place}") for place in range(others)]
        for _ in range(30):
            answers.append(await client.add(1))
            for other in crowd:
                await other.add(1)
        return answers

    async def run(others: int) -> list[bool]:
        async with open_model(FAULTLESS.regions, FAULTLESS.seed) as model:
            return await losses(model, others)

    alone = loop.run(lambda: run(0))
    assert alone == loop.run(lambda: run(3))
    assert 3 < alone.count(False) < 20


def test_optimistic_writers_get_no_further_together() -> None:
    """Sixteen optimistic writers do about what one does; sixteen that add do many times as much."""

    async def run(method: str) -> list[float]:
        async with open_model(FAULTLESS.regions, FAULTLESS.seed) as model:
            points = [await contend(model, method, writers, FAULTLESS) for writers in (1, 16)]
            return [*(point.useful_per_second for point in points), points[-1].repeated]

    one, many, wasted = loop.run(lambda: run("optimistic"))
    assert many < 2 * one
    assert wasted > 0.4
    one, many, wasted = loop.run(lambda: run("atomic"))
    assert many > 4 * one
    assert wasted < 0.4


def test_callers_of_one_process_share_items() -> None:
    """Sixteen writers of a combined counter take turns of 20 ms, all in one item; one pays a unit.

    The writers of each region share a process, whatever their names, and no other region's.
    """

    async def run() -> tuple[float, float, list[float]]:
        async with open_model(FAULTLESS.regions, FAULTLESS.seed) as model:
            alone = await count_alone(model, LEDGER_COMBINED, FAULTLESS)
            before = spent(model)
            point = await contend(model, LEDGER_COMBINED, 16, FAULTLESS)
            units = spent(model, before).write_units / point.useful_per_second
            found = await write_partitioned(model, LEDGER_COMBINED, FAULTLESS)
            return alone.write_units, units, [found.least, found.most]

    alone, units, values = loop.run(run)
    assert alone == 1
    assert 1 / 16 <= units < 1.1 / 16
    assert values == [FAULTLESS.changes] * 2


@pytest.mark.slow
def test_a_run_on_the_model_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same report to the byte, another seed another one."""
    monkeypatch.setattr("lab.compare.session.WRITERS", (1, 4))
    monkeypatch.setattr("lab.compare.session.PER_SECOND", (5,))
    options = CompareOptions(engine="model", changes=16, writers=4)
    first, second, other = (
        to_json(compare(one, on_step=lambda _: None).as_json())
        for one in (options, options, replace(options, seed=8))
    )
    assert first == second
    assert first != other.replace(b'"seed":8', b'"seed":7')
