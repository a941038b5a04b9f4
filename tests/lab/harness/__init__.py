"""What the programs of the laboratory share beside the harness of the demo.

A run starts processes (`processes`, `child`, `command`, `compactor_process`) with settings of their
own (`config`) and, if it shakes them, clocks of their own (`process_clock`), and measures latencies
(`latency`).
"""
