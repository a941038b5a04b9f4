"""The state of every region of the table, as an operator needs it; read when somebody asks."""
