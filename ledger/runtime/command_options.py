"""Options of commands as frozen dataclasses: each field is an option or an argument of the command.

A field is annotated as a parameter of a typer command is: `Annotated[str, typer.Option(...)]`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, cast, get_type_hints

Result = TypeVar("Result")


def spread_options(run: Callable[..., Result]) -> Callable[..., Result]:
    """Turn a function that takes dataclasses of options into a command that takes their fields.

    The fields stand where the dataclass stands, so the order of the parameters is that of the help.
    A parameter of another type stays an option or an argument.
    """
    hints = get_type_hints(run, include_extras=True)
    taken = signature(run).parameters.values()
    groups: Mapping[str, Any] = {
        one.name: hints[one.name] for one in taken if is_dataclass(hints[one.name])
    }

    @wraps(run)
    def run_with(**values: Any) -> Result:
        made = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        return run(**values, **made)

    spread = [each for one in taken for each in _spread(one, hints[one.name])]
    cast("Any", run_with).__signature__ = Signature(spread)
    return run_with


def _spread(parameter: Parameter, hint: Any) -> Iterator[Parameter]:
    """Yield a parameter, or the fields of the dataclass that it is."""
    if not is_dataclass(hint):
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint)
        return
    hints = get_type_hints(hint, include_extras=True)
    for each in fields(hint):
        default = Parameter.empty if each.default is MISSING else each.default
        yield Parameter(
            each.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[each.name]
        )
