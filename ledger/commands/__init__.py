"""The commands: one module a group, loaded when it is used."""
