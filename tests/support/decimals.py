"""The strictest decimal context that a calling program may have set: nothing may calculate in it.

One digit, no exponents, small letters, and a trap for everything. `TESTS_STRICT_DECIMALS=1` gives
it to every thread of the tests; a test that calculates itself does so in a context of its own.
"""

import decimal
import os
from contextlib import AbstractContextManager

STRICT = decimal.Context(
    prec=1,
    rounding=decimal.ROUND_UP,
    Emin=0,
    Emax=0,
    capitals=0,
    clamp=1,
    traps=[*decimal.Context().traps],
)


def strictly() -> AbstractContextManager[decimal.Context]:
    """Calculate strictly in a `with` block."""
    return decimal.localcontext(STRICT)


def be_strict_if_asked() -> None:
    """Give this context to this thread and to all later ones, if the environment asks for it."""
    if os.environ.get("TESTS_STRICT_DECIMALS"):
        for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
            setattr(decimal.DefaultContext, name, getattr(STRICT, name))
        decimal.DefaultContext.traps.update(STRICT.traps)
        decimal.setcontext(STRICT.copy())
