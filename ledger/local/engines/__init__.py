"""The engines that hold the items of a local global table; `port.py` defines their duties."""
