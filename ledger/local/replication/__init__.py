"""Replication: carries a committed write to the other regions."""
