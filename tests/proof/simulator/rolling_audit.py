"""What must hold of rolling limits, and of steps that wait: judged by the true time.

No span as long as the window has more than the limit: neither by the ids of the spends, as is
promised, nor by the moments at which they reached a region, whatever the clocks said. What a hold
came to more counts from its settlement on. A step of windows comes into force no sooner than the
contract's wait after it was noted that every region shows it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from ledger.core.entry import Item, Key
from proof.simulator.clocks import START

_ZERO = Decimal(0)
Part = tuple[float, float, Decimal]
"""Of a spend: when it came, the time in its id (both in seconds of the world), and how much."""


class RollingAudit:
    """The spends of rolling budgets, by their window in seconds; `now` is the world's time."""

    def __init__(self, windows: Mapping[str, float], *, now: Callable[[], float]) -> None:
        self._windows = windows
        self._now = now
        self._parts: dict[str, dict[Key, list[Part]]] = {}

    def keeps(self, budget: str) -> bool:
        """Return whether a budget is rolling."""
        return budget in self._windows

    def came_to(self, budget: str, key: Key, amount: Decimal) -> None:
        """Take in what an entry comes to by now."""
        if budget not in self._windows:
            return
        parts = self._parts.setdefault(budget, {}).setdefault(key, [])
        more: Decimal = amount - sum((spent for _, _, spent in parts), _ZERO)
        if more > 0:
            at = _seconds(key[1]) if not parts else self._now()
            parts.append((self._now(), at, more))
        while more < 0 and parts:
            moment, at, one = parts.pop()
            less = min(one, -more)
            more += less
            if one > less:
                parts.append((moment, at, one - less))

    def most(self, budget: str) -> Decimal:
        """Return the most of any span as long as the window, by either time."""
        parts = [one for spend in self._parts.get(budget, {}).values() for one in spend]
        by_moment = [(moment, amount) for moment, _, amount in parts]
        by_id = [(at, amount) for _, at, amount in parts]
        window = self._windows[budget]
        return max(_most(by_moment, window), _most(by_id, window))


class StepAudit:
    """The announced steps of limits, and when it was noted that all regions show them."""

    def __init__(
        self, wait: float | None, *, now: Callable[[], float], fail: Callable[[str, str], None]
    ) -> None:
        self._wait = wait
        self._now = now
        self._fail = fail
        self._shown: dict[tuple[str, str, str], tuple[int, str, float]] = {}

    def limit(self, budget: str, item: Item) -> None:
        """Take in a limit item; one that is older than what was seen before changes nothing."""
        if self._wait is None:
            return
        revision = int(item["revision"]["N"])
        if "announced" in item and "shown" in item:
            step = item["announced"]["M"]
            key = budget, step["since"]["N"], step["limit"]["N"]
            known = self._shown.get(key)
            if known is None or known[0] < revision:
                # Another write of the item may leave what was noted as it is.
                noted = item["shown"]["N"]
                at = known[2] if known and known[1] == noted else self._now()
                self._shown[key] = revision, noted, at
        for part in item["steps"]["L"]:
            step = part["M"]
            key = budget, step.get("since", {"N": ""})["N"], step["limit"]["N"]
            known = self._shown.pop(key, None)
            if known is not None and self._now() - known[2] <= self._wait:
                said = f"{self._now() - known[2]:.0f} s after all regions showed it"
                self._fail("step", f"{budget}: a step of {key[2]} is in force {said}")


def _seconds(entry: str) -> float:
    return (datetime.fromisoformat(f"{entry[:26]}+00:00") - START).total_seconds()


def _most(spent: Sequence[tuple[float, Decimal]], window: float) -> Decimal:
    return max(
        (
            sum((amount for at, amount in spent if 0 <= at - first < window), _ZERO)
            for first, _ in spent
        ),
        default=_ZERO,
    )
