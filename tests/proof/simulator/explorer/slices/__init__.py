"""Slices and their leaders, in every order of events of small cases.

::

    python -m proof.simulator.explorer.slices [--mutants | --mutant given-and-led]

Two or three processes share a few slices. What a member does in its turn, and each condition of
what it writes, come from the production code (`compactor.slices`); the model only moves items.

- A process contends for the lease, joins as a member, takes turns, moves up to the head when the
  lease is free, stops, crashes, starts again.
- A turn reads members and slices one after the other, then sends one transaction. It lands at any
  time, also once its sender has gone; its answer may be lost, and then the sender goes on.
- Time is what the leases' own model (`tests/simulation/test_leases.py`) shows of it: another may
  take a lease, or delete a member's heartbeat item, only once the holder's own time is over. The
  holder may still come back by a late heartbeat, if no other was faster.
- The leader of the last slice may at any time plan that collection's first net, and send it. It
  lands at any time, too.

Right is: no two processes lead one slice; no first net lands that was sent by one that another has
followed as the slice's leader; and wherever all have come to rest, each slice has a leader.
"""
