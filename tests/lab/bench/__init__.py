"""`lab bench`: the ledger's throughput and its cost per change, each case beside a baseline.

Every case runs in a process of its own against a stub endpoint in another (`stub`), so that the
client is what is measured. `cases` names them, `runner` runs them in turns, `report` shows the
medians. See README.md beside this file for the figures.
"""
