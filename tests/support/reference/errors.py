"""The page of all errors, from their classes and from the problems that the service answers."""

from collections.abc import Iterator
from inspect import getdoc, isclass

from support.reference.tables import row, table

import ledger.core.errors
from ledger.core.errors import LedgerError
from ledger.http.wire.problems import KINDS, TYPES, Problem, error_of, kind_of
from ledger.http.wire.schemas import ProblemModel

HEAD = f"""\
# Errors

Every error is a name of `ledger`. `outcome` is `not_applied` where the call wrote nothing of the
change, and `unknown` where it may have. `retryable` is yes where the same call may be made again,
and may succeed then. The table has the usual values: an error may carry others.

The service answers an error as a problem (RFC 9457), and the client raises the error again.
`GET {TYPES}NAME` says more about a problem.

"""
OF_SERVICE = """
## Problems of the service itself

The client raises them as these errors.

"""


def page() -> str:
    """Return the page: the errors in the order of their tree, then the service's own problems."""
    raised = table("error", "is a", "outcome", "retryable", "means", "problem")
    own = table("problem", "raised as", "means", "to do")
    return f"{HEAD}{raised}{''.join(_errors())}{OF_SERVICE}{own}{''.join(_problems())}"


def public_errors() -> list[type[LedgerError]]:
    """Return every class of the tree, in the order of their definitions."""
    found = vars(ledger.core.errors).values()
    return [one for one in found if isclass(one) and issubclass(one, LedgerError)]


def _errors() -> Iterator[str]:
    for error in public_errors():
        kind = kind_of(error.__new__(error))
        yield row(
            f"`{error.__name__}`",
            ", ".join(f"`{base.__name__}`" for base in error.__bases__),
            error.outcome,
            "yes" if error.retryable else "no",
            _about(error),
            f"{kind.status.value} `{kind.name}`",
        )


def _problems() -> Iterator[str]:
    answered = {kind_of(error.__new__(error)).name for error in public_errors()}
    for name, kind in KINDS.items():
        if name not in answered:
            problem = Problem(kind, kind.title, {"outcome": "not_applied", "retryable": False})
            raised = type(error_of(ProblemModel(**problem.fields()))).__name__
            yield row(f"{kind.status.value} `{name}`", f"`{raised}`", kind.title, kind.advice)


def _about(error: type[LedgerError]) -> str:
    return (getdoc(error) or "").partition("\n\n")[0]
