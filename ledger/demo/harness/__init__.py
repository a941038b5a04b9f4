"""What the programs of the laboratory share.

A run opens a table (`table`), starts processes (`processes`, `child`, `compactor_process`), writes
and reads counters whose totals show which changes they count (`tagged`, checked by `checker`),
measures latencies (`latency`), counts what is left in a table (`census`), shows its progress
(`display`), and ends with a report (`report`, `picture`). Its options are declared once, as fields
of a dataclass (`options`).
"""
