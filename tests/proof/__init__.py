"""Proves the rules: worlds on virtual time, every order of events, drawn command lines."""
