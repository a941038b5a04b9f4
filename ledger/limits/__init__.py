"""Limits on what is spent: budgets that hold across processes and regions.

What to write, and on which condition: `rights` is the item in which a region keeps its part of a
budget, `plan` each change of it, `spends` what an entry says of the grant that paid for it, `holds`
amounts kept aside, `windows` limits by step and period, `balance` who sends rights to whom, `lost`
what a lost region leaves. They do no I/O.

At the edge, for whoever reads every region: `reclaiming` closes grants by their entries and
resolves holds that expired, `balancing` moves rights, `losing` reclaims those of a lost region;
`reading` reads the items.
"""
