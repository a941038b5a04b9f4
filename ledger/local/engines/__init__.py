"""What holds the items of a local global table; `port.py` says what an engine owes the front."""
