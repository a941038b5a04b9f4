"""Entries that are put again before they are older than `settle`, in every order of events.

::

    python -m proof.simulator.explorer.repeats [--mutants | --mutant merged-young]

What is decided and counted comes from the production code (`compactor.merge_plan`,
`compactor.succession`, `ledger.core.fold`); the model only moves items.

- An entry may be put again in any region, with any stamp later than what that region shows, until
  it is older than `settle`. Entries grow old in the order in which they were made.
- A delete is stamped later than what home shows; of an old entry, later than all puts of it.
- Puts, deletes and nets reach each other region on their own, in any order. With `twice` a delete
  may land again.
- A reader reads each entry on its own and then the net. A leader that has observed meanwhile waits
  for it: the hold.
- A region that is lost is not read any more; what was written there arrives late, or never. Nothing
  decided before is done then, except deletes. What was written before is remembered; an old entry
  that only some regions show is put again, once.

An *answered* entry is one of which its writer says that it sent a single request, and that this was
applied. It is never put again, nor said of one that was. The cases show that it could be merged as
soon as every region shows it. No code writes or reads such a word: to the production code an entry
that may be merged has an id older than `settle`, any other a younger one. The word may be in the
next entry (`carried`): then a leader knows it as long as home shows that.

In the models beside this one every entry is old, and never put again.
"""
