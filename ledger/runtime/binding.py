"""A context variable set for a block: `with` a class that names its variable and a value.

A class, not a generator with `@contextmanager`: one is entered for every read and write.
"""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import ClassVar, Generic, TypeVar

Value = TypeVar("Value")


class Binding(Generic[Value]):
    """Sets its class's variable to a value inside the block, and resets it afterwards."""

    __slots__ = ("_token", "_value")
    # Without a type of value, because a class variable cannot be generic.
    variable: ClassVar[ContextVar]  # type: ignore[type-arg]

    def __init__(self, value: Value) -> None:
        self._value = value

    def __enter__(self) -> None:
        self._token: Token[Value] = self.variable.set(self._value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.variable.reset(self._token)
