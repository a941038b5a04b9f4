"""The archive compared with the table, swept, erased from, and a table made of it again."""
