"""How a program starts: its modules take a tenth of a second to load, and Ctrl-C may come then.

Imports almost nothing itself.
"""

import sys
from importlib import import_module

INTERRUPTED = 130


def start(module: str) -> None:
    """Import a program's module and run its `main`; an interrupt meanwhile prints one line."""
    try:
        main = import_module(module).main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    main()
