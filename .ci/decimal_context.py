"""A plugin of mypy: nothing calculates with decimals in the context of the calling program.

A program may have set few digits, traps or small letters in exponents, and every task it starts
inherits that. So each calculation names a context of `ledger.core.amounts`. Refused, where mypy
knows the type:

- operators on decimals: + - * / // % ** and signs, also by `sum`, `abs`, `round`, `pow`, `divmod`;
- methods of decimals that take a context and are given none: `quantize`, `scaleb`, `normalize`;
- an order between a decimal and a float, which a context may trap;
- `Decimal(text)` without a context, where the text is no literal: without a trap it is NaN;
- texts by `str`, `repr`, `format`, or with a form (`f"{amount:.2f}"`): a context decides on `E` or
  `e`, and how to round.

An int or a float on the left is refused too; mypy then says that the operands are unsupported.

Not seen: values whose type mypy does not know, and decimals in messages without a form
(`f"got {amount}"`), where a context changes nothing but `E`. `.ci/run` tries the unit tests in a
strict context for those. The laboratory is left out: it runs in processes of its own, and the
simulator sets the context of its worlds and audits.
"""

from collections.abc import Callable

from mypy.errorcodes import ErrorCode
from mypy.nodes import CallExpr, Context, MemberExpr, StrExpr
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, TupleType, Type, UnionType, get_proper_type

Call = FunctionContext | MethodContext

_DECIMAL = "decimal.Decimal"
_CODE = ErrorCode("decimal-context", "No calculation in the calling program's context", "Decimals")
_BOTH_SIDES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow")
_OPERATORS = frozenset(
    [f"__{side}{name}__" for name in _BOTH_SIDES for side in ("", "r")]
    + ["__neg__", "__pos__", "__abs__", "__round__"]
)
_ORDERS = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
_OF_ONE = frozenset({"abs", "round", "pow", "divmod", "str", "repr", "format"})
_FREE = frozenset({"compare_total", "compare_total_mag", "copy_sign", "same_quantum"})
"""Methods that take a context and do not use it."""
_EXACT_FORMS = frozenset({"", "f", "E"})
"""Forms that round nothing and write one letter, whatever the context is."""


def plugin(_version: str) -> type[Plugin]:
    """Return the plugin, as mypy asks for it."""
    return DecimalContexts


class DecimalContexts(Plugin):
    """Reports each calculation with decimals that names no context."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Look at methods and operators of decimals, and at texts that are filled in."""
        owner, _, name = fullname.rpartition(".")
        if fullname == "builtins.str.format":
            return _check_form
        if owner != _DECIMAL:
            return None
        if name in _OPERATORS:
            return lambda call: _refused(call, f"{name} of a decimal")
        if name in _ORDERS:
            return _check_order
        return None if name in _FREE else lambda call: _check_context(call, f"Decimal.{name}")

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Look at functions that calculate with what they are given, and at new decimals."""
        owner, _, name = fullname.rpartition(".")
        if fullname == _DECIMAL:
            return _check_made
        if fullname == "builtins.sum":
            return lambda call: _check_given(call, name, _holds_decimals)
        if owner == "builtins" and name in _OF_ONE:
            return lambda call: _check_given(call, name, _is_decimal)
        return None


def _refused(call: Call, done: str) -> Type:
    if call.api.path.startswith(("ledger/", "compactor/")):
        call.api.fail(
            f"{done} calculates in the calling program's context; name one of ledger.core.amounts",
            call.context,
            code=_CODE,
        )
    return call.default_return_type


def _check_context(call: Call, done: str) -> Type:
    names = call.callee_arg_names
    is_lacking = "context" in names and not call.args[names.index("context")]
    return _refused(call, done) if is_lacking else call.default_return_type


def _check_made(call: FunctionContext) -> Type:
    value = call.arg_types[0][0] if call.arg_types[0] else None
    is_exact = value is None or isinstance(call.args[0][0], StrExpr) or _is_exact(value)
    return call.default_return_type if is_exact else _check_context(call, "Decimal(text)")


def _check_given(call: FunctionContext, name: str, is_one: Callable[[Type], bool]) -> Type:
    form = call.args[-1][0] if name == "format" and call.args[-1] else None
    if isinstance(form, StrExpr) and form.value in _EXACT_FORMS - {""}:
        return call.default_return_type
    if any(is_one(given) for argument in call.arg_types for given in argument):
        return _refused(call, f"{name} of decimals")
    return call.default_return_type


def _check_order(call: MethodContext) -> Type:
    other = get_proper_type(call.arg_types[0][0])
    if isinstance(other, Instance) and other.type.fullname == "builtins.float":
        return _refused(call, "an order between a decimal and a float")
    return call.default_return_type


def _check_form(call: MethodContext) -> Type:
    forms = {one.value for one in call.args[0][1:] if isinstance(one, StrExpr)}
    is_text = any(map(_is_decimal, call.arg_types[0])) and not _is_of_repr(call.context)
    if is_text and forms - _EXACT_FORMS:
        return _refused(call, "a decimal with a form")
    return call.default_return_type


def _is_of_repr(call: Context) -> bool:
    """Return whether a form such as `{value!r:.80}` is applied to the text of a value."""
    filled = call.callee if isinstance(call, CallExpr) else None
    text = filled.expr if isinstance(filled, MemberExpr) else None
    return isinstance(text, StrExpr) and "!r" in text.value


def _is_exact(given: Type) -> bool:
    proper = get_proper_type(given)
    if isinstance(proper, UnionType):
        return all(map(_is_exact, proper.items))
    exact = ("builtins.int", "builtins.bool", "builtins.tuple", _DECIMAL)
    return isinstance(proper, TupleType) or (
        isinstance(proper, Instance) and proper.type.fullname in exact
    )


def _is_decimal(given: Type) -> bool:
    proper = get_proper_type(given)
    if isinstance(proper, UnionType):
        return any(map(_is_decimal, proper.items))
    return isinstance(proper, Instance) and proper.type.fullname == _DECIMAL


def _holds_decimals(given: Type) -> bool:
    proper = get_proper_type(given)
    held = proper.args if isinstance(proper, Instance) else ()
    return _is_decimal(proper) or any(map(_holds_decimals, held))
