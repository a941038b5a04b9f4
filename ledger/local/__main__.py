"""Run a local global table as the child of another process; see `child.py`."""

import sys

from ledger.local.child import child_main
from ledger.local.global_table import LocalGlobalTable

if __name__ == "__main__":
    sys.exit(child_main(sys.argv[1:], LocalGlobalTable.start))
