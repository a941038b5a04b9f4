"""The port to the table and what stands behind it."""
