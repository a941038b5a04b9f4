"""`lab pipeline-demo`: traffic with every kind of fault, the pipeline, and expected totals.

`run` is the course; `traffic` makes messages from a seed and their expected totals; `lanes` holds
a `worker` process for each lane, which fails requests by `faults` and breaks rules by `mutants`.
"""
