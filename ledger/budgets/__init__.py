"""Limits on what is spent: budgets that hold across processes and regions.

Without I/O, the rules of each write and its condition: `rights` is the item in which a region keeps
its part of a budget, `rights_plan` plans each change of that item, `spend_record` reads which grant
paid for an entry, `hold_rules` has amounts kept aside, `limit_windows` limits by step, `calendar`
the windows themselves, `initial_shares` the first rights of a holder. `amount_rules` says
which amounts a budget can spend, `balance` who sends rights to whom, `lost_stake` what a lost
region leaves, `grant_allowance` how large a grant is and what a process may still spend under it,
`credit_rules` when what was credited can be spent, `credit_grants` what a process knows of that.
`budget_state` says what a region shows, also in words.

At the edge, in a process that spends: `budget` is the face, over `spender`, `memory_hold`,
`hold_calls`, `administrator` and `limit_changer`, which raises limits and lowers them by
`limit_steps`, all in a `limit_target`: home and all regions. `limit_change` says how a change
ended. `creditor` gives amounts to budgets, for which a `credit_keeper` has grants of 0. `holdings`
are all that the process holds; a `grant_keeper` holds the grants of one budget, and
`rights_fetcher` gets rights from other regions. For those who read every region:
`grant_closing` closes grants by their entries and resolves holds that expired, `rights_mover` moves
rights, `reclaim` takes back those of a lost region. `rights_items` reads the control items,
`region_access` has the ways to the regions.
"""
