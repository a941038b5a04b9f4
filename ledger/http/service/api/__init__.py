"""The endpoints: each reads what is asked, calls the ledger once, and renders what it returned."""
