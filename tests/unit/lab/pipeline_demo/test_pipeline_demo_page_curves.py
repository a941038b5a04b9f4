"""The curves of the demo's page: bounded, with their ends."""

from typing import Any

from lab.pipeline_demo.page_curves import CURVES_MAX, POINTS_MAX, POINTS_OF_MANY, Curves


def row(name: str, **regions: str) -> dict[str, Any]:
    """Return the row of a category."""
    return {"category": name, "regions": regions}


def test_curves_keep_the_ends_and_a_bound() -> None:
    """The newest point and the first stay; the older half is thinned, and so are many curves."""
    curves = Curves()
    for second in range(10 * POINTS_MAX):
        curves.add(second, [row("a", us=str(second)), row("b", us="0")])
    (alone,) = curves.of(["a"]).values()
    last = 10 * POINTS_MAX - 1
    assert len(alone) <= POINTS_MAX
    assert [alone[0], alone[-1]] == [(0, {"us": "0"}), (last, {"us": str(last)})]
    assert [second for second, _ in alone] == sorted(second for second, _ in alone)
    several = curves.of(["a", "b", "none"])
    assert [len(points) for points in several.values()] == [POINTS_OF_MANY, POINTS_OF_MANY, 0]
    assert several["a"][-1] == alone[-1]
    assert len(curves.of([str(number) for number in range(2 * CURVES_MAX)])) == CURVES_MAX
