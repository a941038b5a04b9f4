"""Limits on what is spent: budgets that hold across processes and regions.

`rights` is the item in which a region keeps its part of a budget, `plan` each change of it,
`spends` what an entry says of the grant that paid for it, `holds` amounts kept aside, `windows`
limits by step and period, `balance` who sends rights to whom, `lost` what a lost region leaves.
They say what to write, and on which condition; nothing here writes it.

Pure: no clock, no randomness, no I/O.
"""
