import pytest
from lab.pipeline_demo.curve import MEAN_SECONDS, Curve, is_held

RATE = 100


def steady(seconds: int, *, counted: int, sent: int = RATE) -> Curve:
    """Return a curve that sends and counts the same number in each second."""
    curve = Curve()
    for second in range(seconds):
        curve.send(sent, at=second + 0.1)
        curve.count(counted, at=second + 0.9, latency=0.8)
    return curve


def test_each_second_has_what_was_sent_and_counted_in_it() -> None:
    """The backlog is what is left at its end; the worst is that of the second, not of the run."""
    curve = Curve()
    curve.send(10, at=0.5)
    curve.count(4, at=0.9, latency=0.4)
    curve.count(2, at=2.0, latency=2.0)
    curve.count(4, at=2.9, latency=1.0)
    first, second, third = curve.points()
    assert (first.sent, first.counted, first.backlog, first.worst) == (10, 4, 6, 0.4)
    assert (second.counted, second.backlog, second.worst) == (0, 6, 0.0)
    assert (third.counted, third.backlog, third.worst) == (6, 0, 2.0)
    assert first.latency == 0.4
    assert third.latency == pytest.approx((1.6 + 4 + 4) / 10)
    assert third.throughput == pytest.approx(10 / 3)


def test_throughput_and_latency_are_means_of_the_last_seconds() -> None:
    """What lies further back does not count; where nothing was counted there is no latency."""
    curve = Curve()
    curve.count(1_000, at=0.0, latency=9.0)
    curve.send(1, at=MEAN_SECONDS + 5.0)
    points = curve.points()
    assert (points[0].throughput, points[0].latency) == (1_000, 9.0)
    assert points[MEAN_SECONDS - 1].throughput == 1_000 / MEAN_SECONDS
    assert (points[MEAN_SECONDS].throughput, points[MEAN_SECONDS].latency) == (0, None)


@pytest.mark.parametrize(
    ("curve", "held"),
    [
        (steady(30, counted=100), True),
        (steady(30, counted=98), True),  # 20 more wait in ten seconds, a fifth of a second
        (steady(30, counted=95), False),
        (steady(30, counted=90, sent=90), False),  # the producer did not keep it
        (steady(5, counted=100), None),
    ],
)
def test_a_rate_is_held_if_the_backlog_does_not_grow(curve: Curve, *, held: bool | None) -> None:
    """Nor is it held by a producer that sends less; a short run says nothing."""
    assert is_held(curve.points(), rate=RATE, seconds=len(curve.points())) is held


def test_what_is_counted_after_the_end_of_sending_hides_no_growth() -> None:
    """The rest is taken in once nothing is sent any more."""
    curve = steady(30, counted=80)
    curve.count(600, at=31.0, latency=5.0)
    assert is_held(curve.points(), rate=RATE, seconds=30) is False
