"""Brings about what was planned: weather over the table, blows to the processes."""

from collections.abc import Mapping

from anyio import to_thread
from anyio.abc import TaskGroup

from ledger.lab.chaos.plan import CALM, Plan, Strike, Weather
from ledger.lab.chaos.processes import Victim
from ledger.lab.chaos.state import Options, Progress
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import Clock


class WeatherMaker:
    """Changes a table's weather to what it is to be."""

    def __init__(self, world: LocalGlobalTable, options: Options, progress: Progress) -> None:
        self._world = world
        self._options = options
        self._progress = progress
        self._now = CALM

    async def become(self, weather: Weather) -> None:
        """Let this weather hold from now on.

        Raises:
            LocalTableError: the table does not answer.
        """
        await to_thread.run_sync(self._become, weather)
        self._progress.paused = len(weather.cut)

    async def look(self) -> None:
        """Take in how many faults of each kind were injected so far."""
        status = await to_thread.run_sync(self._world.status)
        self._progress.faults = status["faults_by_kind"]

    def _become(self, weather: Weather) -> None:
        before, self._now = self._now, weather
        for source, target in sorted(before.cut - weather.cut):
            self._world.heal(source, target)
        for source, target in sorted(weather.cut - before.cut):
            self._world.pause(source, target)
        if weather.jitter != before.jitter:
            jitter = self._options.jitter if weather.jitter is None else weather.jitter
            self._world.set_lag(self._options.lag, jitter)
        if weather.rules != before.rules:
            self._world.set_faults(weather.rules)


async def act_out(
    plan: Plan,
    maker: WeatherMaker,
    victims: Mapping[str, Victim],
    progress: Progress,
    *,
    clock: Clock,
    tasks: TaskGroup,
) -> None:
    """Let everything go wrong as planned, and return when it is over."""
    started = clock.monotonic()
    tasks.start_soon(_strike_all, plan, victims, progress, clock, tasks)
    said = 0
    for moment in plan.turns():
        await clock.sleep(max(0.0, started + moment - clock.monotonic()))
        await maker.become(plan.weather(moment))
        for event in [one for one in plan.events if one.at <= moment][said:]:
            said += 1
            if not isinstance(event, Strike):
                progress.planned[_name(event)] += 1
                progress.note(str(event))
    await clock.sleep(max(0.0, started + plan.seconds - clock.monotonic()))
    await maker.become(CALM)


async def _strike_all(
    plan: Plan,
    victims: Mapping[str, Victim],
    progress: Progress,
    clock: Clock,
    tasks: TaskGroup,
) -> None:
    started = clock.monotonic()
    for strike in plan.strikes():
        await clock.sleep(max(0.0, started + strike.at - clock.monotonic()))
        tasks.start_soon(_strike, strike, victims[strike.victim], progress, clock)


async def _strike(strike: Strike, victim: Victim, progress: Progress, clock: Clock) -> None:
    struck = victim.kill(strike.seconds) if strike.blow == "kill" else victim.stall()
    if not struck:
        return  # it lies dead or stopped already
    progress.blows[f"{strike.blow} {victim.kind}"] += 1
    progress.note(str(strike))
    if strike.blow == "stall":
        await clock.sleep(strike.seconds)
        victim.wake()


def _name(event: object) -> str:
    return type(event).__name__.lower()
