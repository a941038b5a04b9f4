"""Run a local global table as the child of another process; see `process.py`."""

import sys

from ledger.local.global_table import LocalGlobalTable
from ledger.local.process import child_main

if __name__ == "__main__":
    sys.exit(child_main(sys.argv[1:], LocalGlobalTable.start))
