"""A baseline in another language: AWS's SDK for JavaScript v3 on Node, in a process of its own."""

import json
import shutil
from pathlib import Path

import anyio
from pydantic import TypeAdapter

from lab.bench.measurement import Measured
from lab.bench.plain import TABLE
from lab.bench.rounds import Round, warm_seconds
from lab.bench.stub_pages import REGION
from ledger.core.errors import LedgerError

PACKAGES = Path(".engines")
"""Where npm has put it: below this directory, beside the engines."""
_SCRIPT = Path(__file__).with_name("batch_write.mjs")


def missing(package: str) -> str | None:
    """Return why a package of npm cannot be used here; None if it can."""
    if shutil.which("node") is None:
        return "Node is not installed"
    if (PACKAGES / "node_modules" / package).is_dir():
        return None
    return f"{package} is not installed: npm i --prefix {PACKAGES} {package}"


async def batch_write(round_: Round) -> Measured:
    """Put 25 items a call.

    Raises:
        LedgerError: it failed, or what arrived is not what was acknowledged.
    """
    round_.stub.reset()
    task = {
        "packages": str(PACKAGES),
        "url": round_.stub.url,
        "region": REGION,
        "table": TABLE,
        "seconds": round_.seconds,
        "warm_seconds": warm_seconds(round_.seconds),
        "callers": round_.options["callers"],
    }
    done = await anyio.run_process(["node", str(_SCRIPT), json.dumps(task)], check=False)
    if done.returncode:
        raise LedgerError(f"node: {done.stderr.decode(errors='replace').strip()[-500:]}")
    found = json.loads(done.stdout)
    acknowledged, arrived = found.pop("sum"), round_.stub.arrived()
    if arrived.sum != acknowledged:
        raise LedgerError(
            f"the stub received changes of {arrived.sum} in sum, {acknowledged} were acknowledged"
        )
    measured = {**found, "requests": found["calls"], "items": found["work"], "units": found["work"]}
    return TypeAdapter(Measured).validate_python(measured)
