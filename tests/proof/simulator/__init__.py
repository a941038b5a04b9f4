"""A deterministic world for the whole ledger: many regions, one seed, virtual time.

The production writer, reader, lease and compactor run in it unchanged, over the store port; every
choice (delays, order of delivery, faults, crashes, stalls, clocks) is drawn from the seed, so a
failing seed replays exactly. `python -m proof.simulator --seeds 1000` runs whole worlds,
`python -m proof.simulator.explorer` every order of events of a small case.
"""
