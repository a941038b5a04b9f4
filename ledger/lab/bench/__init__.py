"""`ledger bench`: what the ledger does a second and costs a change, each case beside a baseline.

Every case runs in a process of its own against a stub endpoint in another (`stub`), so that what is
measured is the client. `cases` names them, `runner` runs them in turns, `report` is what comes out.
Nothing of the library imports this package.
"""
