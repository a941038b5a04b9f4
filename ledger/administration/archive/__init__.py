"""The archive compared with the table, swept, erased from, and rebuilt into a table."""
