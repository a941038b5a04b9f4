"""The service: a ledger of one region over HTTP, any number of processes beside each other."""
