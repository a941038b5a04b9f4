"""The client: the methods of a ledger over HTTP, with the errors and values of the library.

`Ledger` is async, `ledger.http.client.sync.Ledger` is not. See
`ledger/docs/howto/call-from-a-client.md`.
"""

from ledger.runtime.output import needing

with needing("ledger.http.client"):
    from ledger.http.client.ledger import Ledger

__all__ = ["Ledger"]
