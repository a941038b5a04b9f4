"""The client: the methods of a ledger over HTTP, with the errors and values of the library."""
