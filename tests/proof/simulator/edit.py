"""A changed line of the product: how most mutants break their rule."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True)
class Edit:
    """`old` text of a function, in which it occurs once, and the `new` text in its place.

    `function` is `module:name`, or `module:Class.name`. Whoever has imported the function calls the
    edited one too: it stays the same object, and only its code is another.
    """

    function: str
    old: str
    new: str

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the function run as edited within the context."""
        function = self._found()
        before = function.__code__
        function.__code__ = self._edited(function)
        try:
            yield
        finally:
            function.__code__ = before

    def _found(self) -> FunctionType:
        module, name = self.function.split(":")
        *classes, last = name.split(".")
        owner: object = import_module(module)
        for one in classes:
            owner = getattr(owner, one)
        found = inspect.getattr_static(owner, last)
        if isinstance(found, property):
            found = found.fget
        found = inspect.unwrap(getattr(found, "__func__", found))
        if not isinstance(found, FunctionType):
            raise TypeError(f"{self.function} is no function of Python")
        return found

    def _edited(self, function: FunctionType) -> CodeType:
        source = inspect.getsource(function)
        if (times := source.count(self.old)) != 1:
            raise ValueError(f"{self.function} has {self.old!r} {times} times, and not once")
        text = source.replace(self.old, self.new)
        *classes, _ = self.function.split(":")[1].split(".")
        for name in classes:  # the text of a method is indented as in its class
            text = f"class {name}:\n{text}"
        before = function.__code__
        edited = _code_of(compile(text, before.co_filename, "exec"), before.co_name)
        return edited.replace(co_firstlineno=before.co_firstlineno)


def _code_of(code: CodeType, name: str) -> CodeType:
    """Return the code of a function in a module's, or in that of the only class of it."""
    found = [const for const in code.co_consts if isinstance(const, CodeType)]
    named = [const for const in found if const.co_name == name]
    return named[0] if named else _code_of(found[0], name)
