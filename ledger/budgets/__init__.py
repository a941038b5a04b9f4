"""Limits on what is spent: budgets that hold across processes and regions.

Without I/O, what to write and on which condition: `rights` is the item in which a region keeps its
part of a budget, `plan` each change of it, `spends` what an entry says of the grant that paid for
it, `holds` amounts kept aside, `windows` limits by step, `calendar` the windows themselves,
`shares` what an account begins with, `balance` who sends rights to whom, `lost` what a lost region
leaves, `allowance` what a process may still spend under a grant, `sizes` how large a grant is,
`state` what a region shows of a budget, which `explaining` says in words.

At the edge, in a process that spends: `budget` is the face, over `spending`, `light` and `holding`,
`administering` and `changing`, which raises limits, and lowers them by `lowering`, both in a
`place`: home and all regions; `steps` announces and confirms those of later windows, `limit_change`
says what became of a change. A `keeper` holds the grants of one budget, and `fetching` gets rights
from other regions. For those who read every region: `reclaiming` closes grants by their entries and
resolves holds that expired, `balancing` moves rights, `losing` reclaims those of a lost region.
`items` and `reading` read the control items, `region_access` has the ways to the regions.
"""
