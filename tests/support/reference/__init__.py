"""Pages of `ledger/docs/reference` that are made from the code: `python -m support.reference`.

The command writes all of them anew. `tests/acceptance/test_reference.py` compares page and code.
"""
