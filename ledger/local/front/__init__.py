"""The front that answers the requests of clients: HTTP, control plane, limits, faults."""
