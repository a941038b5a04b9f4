"""Sum items of the pipeline, in every order of events of small cases.

::

    python -m proof.simulator.explorer.sums [--mutants | --mutant copied-once]

Two or three regions, one category, map items that wait in each. What a reduce writes, what a reader
counts and what is copied come from the production code (`pipeline.core.plans`, `core.fold`,
`core.sums`, `compactor.plan_execution`); the model only moves items.

- Workers send a reduce of any of the map items that their region shows; it lands at any time, and
  may land again, for as long as it takes: no token is counted on.
- Every item that is written reaches each other region on its own, in any order; the last writer
  wins. A stamp is one more than that of the item replaced, and the region decides ties.
- A region may be lost for good at any moment: what it wrote last reaches any part of the others,
  late or never. Home copies what remains, on an observation of any age, two at once.
- The lost region may be added again, as a new replica, while its former writes still arrive.

Right is, at every moment in every region, the sum over exactly what has reached it, each once; and
at rest the same in all of them.
"""
