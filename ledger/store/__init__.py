"""The port to the table and its implementations."""
