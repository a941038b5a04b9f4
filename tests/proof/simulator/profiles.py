"""The ranges of scenarios: one wide, and narrow ones that make rare races frequent.

A profile says what can happen and how often; when, and in which order, is drawn from the seed. A
mutant that shows only when, say, a leader stalls between two pages while another folds, deletes and
forgets is then caught within tens of seeds instead of thousands.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "one", "keyed", "many", "together", "foreign", "crowd", "shared", "listed", "keyed_list"
]
KINDS: Mapping[Kind, int] = {"one": 8, "keyed": 8, "many": 3, "together": 2, "foreign": 1}


@dataclass(frozen=True, slots=True)
class Profile:
    """The ranges of a scenario; of each tuple one value is drawn; durations in seconds.

    `rough` is the largest share of faults. `fault_steps` are mean steps between two faults of a
    compactor, of which each draws its own; a fault is a crash or a stall of up to one of `stalls`.
    `kinds` weighs the kinds of operations, `repeats` are the longest delays of repeated calls. Of a
    compactor's transactions a share of `late_folds` lands late, of an application's writes one of
    `late_writes`. Between two busy periods lie `idle` seconds, from and to. One of
    `clocks_off` is added to the clock of each process: beyond the skew it is refused what rests on
    its clock, and that alone must hold. In bursts operations come together, and each is read by
    `reads_per_burst` steady reads of each counter in each region.
    """

    name: str
    rough: float = 1.0
    usual_seconds: tuple[float, ...] = (0.2, 2.0, 20.0)
    late_share: tuple[float, ...] = (0.0, 0.05, 0.15)
    late_seconds: tuple[float, ...] = (30.0, 300.0, 2800.0)
    staleness: tuple[float, ...] = (0.0, 2.0, 4.5)
    consistent: float = 0.5
    page_items: tuple[int, ...] = (2, 4, 30)
    trips: tuple[float, ...] = (0.05, 1.0, 2.5)
    pass_every: tuple[float, ...] = (10.0, 20.0)
    fault_steps: tuple[float, ...] = (300.0, 1000.0, 5000.0)
    crashes: float = 0.25
    stalls: tuple[float, ...] = (30.0, 300.0, 1200.0)
    app_fault_steps: tuple[float, ...] = (500.0, 3000.0)
    app_crashes: float = 0.2
    app_stalls: tuple[float, ...] = (30.0, 300.0, 4500.0)
    compactors: tuple[int, ...] = (1, 1, 2, 3)
    rivals: float = 0.6
    lease: float = 40.0
    heartbeat: float = 20.0
    fold_max: tuple[int, ...] = (4, 8, 40)
    fold_min: tuple[int, ...] = (1, 2, 4)
    prune_min: tuple[int, ...] = (1, 2, 4)
    late_folds: tuple[float, ...] = (0.0, 0.0, 0.25)
    late_writes: tuple[float, ...] = (0.0,)
    idle: tuple[float, float] = (200.0, 1200.0)
    moves: float = 0.2
    outages: tuple[int, ...] = (0, 1, 3)
    reads_per_net: int = 3
    reads_per_burst: int = 0
    shards: tuple[int, ...] = (1,)
    kinds: Mapping[Kind, int] = field(default_factory=lambda: KINDS)
    clocks_off: tuple[float, ...] = ()
    repeats: tuple[float, ...] = (5.0, 60.0, 300.0, 300.0, 3000.0)


PROFILES = (
    Profile("everything"),
    Profile(
        "long reads while merging is quick",
        rough=0.1,
        usual_seconds=(0.2, 2.0),
        late_share=(0.0,),
        staleness=(2.0, 4.5),
        consistent=0.3,
        page_items=(2, 3),
        trips=(0.5, 1.0),
        pass_every=(2.0,),
        fault_steps=(2000.0,),
        app_fault_steps=(2000.0,),
        compactors=(1,),
        rivals=0.0,
        fold_max=(4, 8),
        fold_min=(1,),
        prune_min=(1,),
        late_folds=(0.0,),
        moves=0.0,
        outages=(0,),
        reads_per_net=8,
        reads_per_burst=5,
        shards=(1, 2, 2),
    ),
    Profile(
        "leaders that stall and whose folds land late",
        rough=0.1,
        usual_seconds=(0.2,),
        late_share=(0.0, 0.05),
        fold_min=(1,),
        prune_min=(1,),
        page_items=(1, 2),
        trips=(0.05,),
        pass_every=(10.0,),
        fault_steps=(1000.0, 5000.0),
        crashes=0.0,
        stalls=(30.0, 300.0, 400.0),
        compactors=(1,),
        rivals=1.0,
        lease=400.0,
        heartbeat=40.0,
        fold_max=(2, 4),
        late_folds=(0.2, 0.3),
        moves=0.0,
        outages=(0,),
        reads_per_net=1,
    ),
    Profile(
        "replication late and in disorder",
        rough=0.3,
        usual_seconds=(2.0, 20.0),
        late_share=(0.1, 0.2),
        late_seconds=(2800.0,),
        fault_steps=(1000.0, 5000.0),
        fold_min=(1, 2),
        prune_min=(1,),
        outages=(1, 3, 5),
        moves=0.2,
        reads_per_net=2,
    ),
    Profile(
        "leaders that stall for long between two pages",
        rough=0.1,
        usual_seconds=(0.2,),
        late_share=(0.0, 0.05),
        page_items=(1, 2),
        trips=(0.05,),
        pass_every=(10.0, 15.0),
        fault_steps=(600.0, 1500.0),
        crashes=0.0,
        stalls=(400.0,),
        compactors=(1,),
        rivals=1.0,
        lease=400.0,
        heartbeat=40.0,
        fold_max=(40,),
        fold_min=(2, 4),
        prune_min=(1,),
        late_folds=(0.0,),
        moves=0.0,
        outages=(0,),
        reads_per_net=1,
    ),
    Profile(
        "writers that freeze for long, repeating others' calls; requests held up for long",
        rough=0.1,
        usual_seconds=(0.2, 2.0),
        late_share=(0.0,),
        page_items=(4, 30),
        trips=(0.05, 1.0),
        fault_steps=(1000.0, 5000.0),
        app_fault_steps=(150.0, 400.0),
        app_crashes=0.05,
        app_stalls=(4500.0,),
        compactors=(1, 2),
        rivals=0.3,
        fold_min=(1, 2),
        prune_min=(1,),
        late_folds=(0.0,),
        late_writes=(0.5,),
        idle=(60.0, 300.0),
        outages=(0, 1),
        reads_per_net=1,
        kinds={"one": 2, "keyed": 10, "many": 1, "together": 1},
        repeats=(60.0, 300.0),
    ),
)
CLOCKS_OFF = Profile(
    "clocks that are off by more than the skew; requests held up for long",
    rough=0.1,
    usual_seconds=(0.2, 2.0),
    late_share=(0.0, 0.05),
    trips=(0.05,),
    pass_every=(10.0,),
    crashes=0.5,
    compactors=(2, 3),
    rivals=0.3,
    fold_min=(1, 2),
    prune_min=(1,),
    late_folds=(0.0,),
    late_writes=(0.5,),
    idle=(60.0, 300.0),
    moves=0.0,
    outages=(0, 1),
    reads_per_net=1,
    kinds={"one": 2, "keyed": 10, "many": 1, "together": 1},
    repeats=(300.0,),
    clocks_off=(0.0, 0.0, 840.0, 840.0, -840.0),
)
CLOCKS_OFF_EVERY, CLOCKS_OFF_PLACE = 10, 7
"""Of ten seeds in a row the one with this remainder has clocks that are off."""


def profile_of(seed: int) -> Profile:
    """Return the profile of a seed: each of `PROFILES` in turn, and `CLOCKS_OFF` once in ten."""
    if seed % CLOCKS_OFF_EVERY == CLOCKS_OFF_PLACE:
        return CLOCKS_OFF
    return PROFILES[seed % len(PROFILES)]
