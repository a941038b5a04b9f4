"""What answers the requests of clients: HTTP, control plane, limits, faults."""
