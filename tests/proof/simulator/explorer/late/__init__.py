"""What a late call is answered, in every order of events of small cases.

::

    python -m proof.simulator.explorer.late [--mutants | --mutant measured-at-act]

Two regions, the first is home; entries whose ids have times, each written in one of the regions.
When a net's `settled` time moves, and what it says then of an id, comes from the production code
(`compactor.archiver.settled_upto`, `ledger.writes.past_horizon.unknown_because`); the model only
moves items.

- Time goes on in ticks. A write lands at any time before its id is `settle` old, or never.
- An entry, a net, a delete reaches the other region on its own, in any order.
- A compactor reads home and then the other region, and acts any time later: it folds what has
  settled and both show, and puts the net on condition of the version that it read.
- Folds before the archive begins go into no segment. A region may be lost, with what it had alone.

Wrong is an id of which a region's net says that it was never applied, although it was, or still
can be.
"""
