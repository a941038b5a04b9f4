"""What the demo shares with the programs of the laboratory.

A run opens a table (`table`), writes and reads counters whose totals show which changes they count
(`digit_tags`, checked by `checker`), counts what is left in a table (`census`), shows its progress
(`display`), and ends with a report (`report`, `picture`). Its options are declared once, as fields
of a dataclass (`options`).
"""
