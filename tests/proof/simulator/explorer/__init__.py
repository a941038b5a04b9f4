"""Every order of events in small cases, one after another: no region ever shows a wrong total.

::

    python -m proof.simulator.explorer --regions 3 --entries 2 --leaders 2
    python -m proof.simulator.explorer --mutant home-candidates

A breadth-first walk over all states that writers, replication, leaders (each a zombie that acts on
what it saw however long ago, or crashes), plans in flight, a reader and a move of home can bring
about. What is decided and what is counted comes from the production code
(`compactor.merge_plan.plan_merge`, `ledger.core.fold.Collection`); the model only moves items. In
every state, wherever an item has changed, the region's total must count each change that has
reached it, once, and no other. With a mutant one rule is broken, and the walk ends with the
shortest trace to a wrong total.

Some events need no step of their own:

- A retry. A change is merged only once it is older than `settle`, when no retry of it can arrive
  any more; before that, a retry puts the same item where it has not arrived yet, as its arrival
  does. `settle` itself is the subject of `repeats`.
- An entry that is too young to be merged: a leader that acts late on a view without that entry
  does the same. Likewise a region that cannot be read: its reader waits for ever, or crashes.
- The hold. A leader that has observed while a reader was active waits for that reader to end:
  the longest read is shorter than the hold.

`walk` is the search, `keys` the encoding of states, `state`, `world` and `model` are the model,
`production` asks the production code, `mutants` breaks rules, `describe` puts traces into words.
`loss`, `terms`, `limits` and `repeats` are models of their own: of a region that is lost, of a
change of the table's terms, of budgets, and of puts that are repeated; `listing` is their command.
"""
