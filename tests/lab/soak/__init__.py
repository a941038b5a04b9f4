"""`lab soak`: the service under load for long, while instances, regions and requests fail."""
