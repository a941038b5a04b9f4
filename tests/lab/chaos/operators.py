"""Operators: commands that are run until they end well, and sometimes killed and run again."""

from random import Random

import anyio

from lab.faults.report import FaultProgress
from lab.harness.processes import ManagedProcess
from ledger.demo.harness.checker import Violation

TRIES_MAX = 40
KILLS_MAX = 2
PAUSE_SECONDS = 1.0
KILL_SHARE = 0.5
KILL_SECONDS = (1.0, 12.0)
"""How long a command runs before it is killed: as it starts, announces, or waits."""
COMMAND_SECONDS_MAX = 120.0


async def operate(command: ManagedProcess, progress: FaultProgress, random: Random) -> None:
    """Run a command until it ends well; one that never does is a violation."""
    for turn in range(TRIES_MAX):
        is_killed = turn < KILLS_MAX and random.random() < KILL_SHARE
        seconds = random.uniform(*KILL_SECONDS) if is_killed else COMMAND_SECONDS_MAX
        async with command.started():
            with anyio.move_on_after(seconds) as waiting:
                if await command.wait() == 0:
                    progress.note(f"{command.name} has ended")
                    return
        if waiting.cancelled_caught:
            progress.process_faults[f"kill {command.name}"] += 1
            progress.note(f"kill {command.name}")
        await progress.clock.sleep(PAUSE_SECONDS)
    progress.add(Violation("operators", f"{command.name} did not end: {command.last_words()}"))
