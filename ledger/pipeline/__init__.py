"""From a stream of corrected records to exact totals; see README.md beside this file.

Pure: templates.py and records.py (bytes to a record, or why not), transitions.py (what a newer
version changes), sums.py (changes of a batch per category), items.py (their form in the table),
plans.py (map items to ledger entries). Acting: sources.py and dead_letters.py (ports),
state_stage.py, map_stage.py, reduce_stage.py (thin, over the store port), worker.py (one lane).
"""
