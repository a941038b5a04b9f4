"""A change of the table's terms, in every order of events and of time.

::

    python -m proof.simulator.explorer.terms

Two regions, and time in small whole numbers. The contract's revision goes from 0 (the old terms in
force) over 1 (announced) to 2 (the new ones in force), written at home by operators and copied to
the other region at any time. A writer and a reader there, and a compactor at home, each hold a view
of the contract that they read again at any time, or do not: a process may freeze between any two
steps. What is obeyed, how long a view holds and how long a change waits come from the production
code (`ledger.core.contract`).

Two subjects, each with terms that become longer and shorter:

- *writes*: one change, whose first attempt has landed, is repeated; the compactor folds it once it
  is older than settle. A fold stands here for the delete and the forgetting too, so a request that
  lands after it counts the change twice.
- *reads*: a reader of many pages; the compactor observes, holds and acts. A reader that began
  before the observation, and ends after the act, may have seen half of each state.

`model` is all of it: states, steps, mutants.
"""
