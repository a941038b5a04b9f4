"""`lab compare`: every way of counting on one workload, its promises beside its figures.

Nothing of the library imports it. See README.md beside this file for what each figure is.
"""
