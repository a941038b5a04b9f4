"""The embedded engine: all regions in this process, with nothing but Python."""
