"""The other methods of the field: counters, sequences, record versions, leases."""
