"""The commands: one module per group, loaded when it is used."""
