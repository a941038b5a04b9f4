"""Wrappers around a store: metered, forwarding, with faults injected."""
