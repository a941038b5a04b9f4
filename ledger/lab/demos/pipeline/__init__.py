"""`ledger pipeline demo`: traffic that goes wrong in every way, the pipeline, and the truth apart.

Pure: options.py, traffic.py (messages from a seed), truth.py (what they add up to), latency.py,
report.py. Acting: spoiling.py (failures by stage), worker.py (one lane, a process of its own),
crew.py (these processes as the session holds them), session.py (the course), page.py.
"""
