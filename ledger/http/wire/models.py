"""Models of values that cross the wire: amounts, times and dates are text, so nothing is lost.

A `ValueModel` names the fields of one of the library's values, and their JSON form. By it the value
is written, without a check, and what was written is read, checked, and made the value again.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
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
    _write: ClassVar["_Members"]
    _read: ClassVar["_Members"]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Prepare how the value is written, and made again."""
        forms = [base for base in cls.__mro__ if issubclass(base, ValueModel)]
        kinds = [kind for form in forms for kind in form.__pydantic_generic_metadata__["args"]]
        if not cls.model_fields:
            return
        cls.kind = kinds[0]
        arguments = _arguments_of(kinds[0])
        written, read = list[_Member](), list[_Member]()
        for name, field in cls.model_fields.items():
            there, ways = _attribute(name, field), _ways_of((*field.metadata, field.annotation))
            written.append(_Member(there, name, ways.write))
            if there in arguments:
                read.append(_Member(name, there, ways.read))
        cls._write, cls._read = _Members(written), _Members(read)

    @classmethod
    def fields_of(cls, value: Plain) -> Fields:
        """Return the members of the JSON object that a value is."""
        return cls._write.of(value)

    def to_value(self, **others: Any) -> Plain:
        """Return the value that was written, with `others` that JSON has not."""
        value: Plain = self.kind(**self._read.of(self), **others)
        return value


@dataclass(frozen=True, slots=True)
class _Member:
    """An attribute, what it is called elsewhere, and how its value gets there unless it is None."""

    attribute: str
    name: str
    way: _Way | None


class _Members:
    """What is taken of a value, two members or more: by loops in C, but for the few with a way."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self._values = attrgetter(*(one.attribute for one in members))
        self._names = [one.name for one in members]
        self._ways = [(one.name, one.way) for one in members if one.way is not None]

    def of(self, value: object) -> Fields:
        """Return the members of a value by name."""
        found: Fields = dict(zip(self._names, self._values(value), strict=True))
        for name, way in self._ways:
            if (held := found[name]) is not None:
                found[name] = way(held)
        return found


def _arguments_of(kind: Any) -> set[str]:
    """Return what one of the library's values is made of: a dataclass, or a named tuple."""
    if issubclass(kind, tuple):
        return {*kind._fields}
    return {one.name for one in fields(kind) if one.init}


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
