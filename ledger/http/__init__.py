"""The ledger over HTTP: its service, its client, its webhooks, and what travels between them."""
