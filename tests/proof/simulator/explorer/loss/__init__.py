"""A region removed for good, in every order of events of small cases.

::

    python -m proof.simulator.explorer.loss [--mutants | --mutant again-at-home]

Two or three regions, one collection, leaders that are zombies, operators who take the lost home's
place, a reader, a new replica where the lost one was. What is decided, counted and taken over comes
from the production code (`compactor.succession`, `compactor.merge_plan`, `ledger.core.fold`); the
model only moves items.

- Every write reaches each other region on its own, in any order. What the lost region wrote before
  it was lost reaches any part of the others, at any time, or never; its stamps may be ahead.
- The loss is the removal of the replica, which every remaining region lists no more. A region that
  is merely out of reach needs no step: replication and reads take any time.
- Operators put the contract's next generation, each through the home that it wants. It is in force
  once every remaining region shows it, and all that began under the one before has ended: that is
  the contract's wait (`explorer.terms`). The same holds before a new replica takes part.
- A rule is tested by the hour (put again at most once an hour) by whole worlds, not here.

`items` is replication, `state` the states and cases, `world` what happens by itself and what is
right, `model` leaders and the reader, `production` asks the production code, `mutants` breaks
rules, `describe` puts traces into words.
"""
