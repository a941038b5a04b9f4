"""Budgets that hold across regions, in every order of events of small cases.

::

    python -m proof.simulator.explorer.limits [--large | --mutants | --mutant forked]

What is written, and when it may be, comes from the production code (`ledger.budgets`); the models
only move items, entries and requests. Each of these happens at any time, or never: a version of a
rights item, or an entry, reaches a region, in any order; a grant expires, and the signatures that
name it end; a request lands late, or vanishes; an answer is lost; a process crashes, closes its
grant or shrinks it; a reclaimer freezes between reading and closing; rights are sent and taken up;
a compactor folds and deletes; a region is lost, and what it sent arrives in part.

Judged in every state: what is applied, over the union of regions, is within the limit, and nothing
is taken up that was not sent. At rest, nothing open and nothing under way: what is charged is what
is applied, and no right is stranded.

- `spending` (its states in `state`, what happens by itself in `world`): spends of 1 under grants,
  transfers, a compactor, a lost region.
- `keyed`: one entry that is put under two grants, by a key in two regions, or by a retry.
- `held` (`held_cases`): a durable hold, who resolves it, and a loss of its region.
- `credited`: a credit, by a process or under a key in two regions, who spends it, and a loss.
- `small`: shares of a window, a raise, a bundle of two limits, a cached total.

`rules` has the production rules, and each broken; `cases` what is explored; `book` numbers items.
A process that gets no answer to its take, and a grant without an owner, is a crash right after it.
"""
