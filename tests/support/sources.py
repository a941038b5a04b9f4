"""The modules of the product, parsed."""

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ledger", "compactor")


@cache
def module_trees() -> Mapping[Path, ast.Module]:
    """Return every module of both packages, by its path.

    The collector looks at none of the nodes: to scan them again and again would take twice as long
    as to make them.
    """
    paths = [path for top in PACKAGES for path in sorted((ROOT / top).rglob("*.py"))]
    gc.disable()
    try:
        return {
            path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths
        }
    finally:
        gc.freeze()
        gc.enable()
