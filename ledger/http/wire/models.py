"""Models of values that cross the wire: amounts, times and dates are text, so nothing is lost.

A `ValueModel` names the fields of one of the library's values, and their JSON form. By it the value
is written, without a check, and what was written is read, checked, and made the value again.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from ledger.core import amounts
from ledger.core.ids import EPOCH
from ledger.core.times import time_of
from ledger.http.wire.values import Fields

AMOUNT_PATTERN = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""How an amount is written, whatever it comes to."""
_SUFFIX = "Model"
"""What the name of a model has that its schema's has not."""
_Way = Callable[[Any], object]
Plain = TypeVar("Plain")


@dataclass(frozen=True, slots=True)
class Ways:
    """How a field is written, and how, once it was checked, it is made a value again."""

    write: _Way | None = None
    read: _Way | None = None

    def of_each(self) -> "Ways":
        """Return those of a tuple of such values."""
        return Ways(*(way and partial(_each, way) for way in (self.write, self.read)))


@dataclass(frozen=True, slots=True)
class _Text:
    """How a value is written as text, and made of text that has the pattern."""

    write: _Way
    read: _Way
    pattern: str | None = None

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        text = core_schema.str_schema(strict=True, pattern=self.pattern)
        return core_schema.no_info_after_validator_function(self.read, text)


def _aware(text: str) -> datetime:
    if (time := time_of(text)).tzinfo is None:
        raise ValueError("a time needs a zone")
    return time


def _time_text(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()


def _seconds_of(text: str) -> int:
    return (_aware(text) - EPOCH) // timedelta(seconds=1)


Amount = Annotated[Decimal, _Text(amounts.to_text, amounts.of_text, AMOUNT_PATTERN)]
Time = Annotated[datetime, _Text(datetime.isoformat, _aware)]
Date = Annotated[date, _Text(date.isoformat, date.fromisoformat)]
Seconds = Annotated[int, _Text(_time_text, _seconds_of)]
"""A time in whole seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Called:
    """The name that the library's value has for a field, if it is another than that in JSON."""

    attribute: str


def name_of_schema(model: str) -> str:
    """Return the name that a model has in the OpenAPI document."""
    return model.removesuffix(_SUFFIX)


class AnswerModel(BaseModel):
    """What an answer contains."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        model_title_generator=lambda model: name_of_schema(model.__name__),
    )


class ValueModel(AnswerModel, Generic[Plain]):
    """One of the library's values; a field may be called otherwise there, or be of JSON alone."""

    kind: ClassVar[Callable[..., Any]]
    _write: ClassVar[Callable[[Any], Fields]]
    _reads: ClassVar[Mapping[str, _Way]]
    """How the fields that are values are made so again."""
    _renamed: ClassVar[Mapping[str, str]]
    """By field the attribute that is called otherwise."""
    _derived: ClassVar[frozenset[str]]
    """The fields that the value is not made of."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Note how the value is written, and made again."""
        kinds = [kind for base in cls.__mro__ for kind in _arguments_of(base)]
        if not cls.model_fields:
            return
        called = {name: _attribute(name, field) for name, field in cls.model_fields.items()}
        ways = {name: _ways_of(_marks(field)) for name, field in cls.model_fields.items()}
        given = {one.name for one in fields(kinds[0]) if one.init}
        cls.kind = kinds[0]
        cls._write = _writer(called, {name: way.write for name, way in ways.items() if way.write})
        cls._reads = {name: way.read for name, way in ways.items() if way.read}
        cls._derived = frozenset(name for name, there in called.items() if there not in given)
        cls._renamed = {
            name: there for name, there in called.items() if there != name and there in given
        }

    @classmethod
    def fields_of(cls, value: Plain) -> Fields:
        """Return the members of the JSON object that a value is."""
        return cls._write(value)

    def to_value(self, **others: Any) -> Plain:
        """Return the value that was written, with `others` that JSON has not, or not so."""
        members = self.__dict__ | others
        for name, read in self._reads.items():
            if (held := members[name]) is not None:
                members[name] = read(held)
        for name in self._derived:
            del members[name]
        for name, there in self._renamed.items():
            members[there] = members.pop(name)
        value: Plain = self.kind(**members)
        return value


def _arguments_of(base: type) -> tuple[Any, ...]:
    """Return what a class was made for from `ValueModel`."""
    said: Mapping[str, Any] = getattr(base, "__pydantic_generic_metadata__", {})
    return tuple(said.get("args", ()))


def _marks(field: FieldInfo) -> tuple[object, ...]:
    return (*field.metadata, field.annotation)


def _attribute(name: str, field: FieldInfo) -> str:
    """Return how the library's value calls a field."""
    marks = (mark.attribute for mark in field.metadata if isinstance(mark, Called))
    return next(marks, name)


def _ways_of(marks: Iterable[object]) -> Ways:
    """Return how a field of this kind is written, and made a value again."""
    for mark in marks:
        if isinstance(mark, Ways):
            return mark
        if isinstance(mark, _Text):
            return Ways(mark.write)
        if isinstance(mark, type) and issubclass(mark, ValueModel):
            return Ways(mark.fields_of, mark.to_value)
        ways = _ways_of(get_args(mark))
        if ways.write:
            return ways.of_each() if get_origin(mark) is tuple else ways
    return Ways()


def _each(way: _Way, held: Iterable[Any]) -> tuple[object, ...]:
    return tuple(map(way, held))


def _writer(called: Mapping[str, str], ways: Mapping[str, _Way]) -> Callable[[Any], Fields]:
    """Return a function that writes a value's attributes as members, in `ways` where there are any.

    It is compiled, as methods of a dataclass are: a loop takes twice as long.
    """
    members = [
        f"{name!r}: None if (held := value.{there}) is None else ways_{name}(held)"
        if name in ways
        else f"{name!r}: value.{there}"
        for name, there in called.items()
    ]
    known = {f"ways_{name}": way for name, way in ways.items()}
    write: Callable[[Any], Fields] = eval(f"lambda value: {{{', '.join(members)}}}", known)  # noqa: S307 (of names in this package)
    return write
