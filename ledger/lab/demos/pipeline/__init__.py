"""`ledger pipeline demo`: traffic with every kind of fault, the pipeline, and expected totals.

Deciding: options.py, traffic.py (messages from a seed), expected.py (their sums), report.py.
Acting: faults.py (failing requests by stage), worker.py (one lane, a process of its own),
lane_workers.py (these processes as the run holds them), run.py (the course).
"""
