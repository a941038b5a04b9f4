"""From the bytes of a record to what the pipeline needs of it, or why it cannot be taken.

Numbers are read as decimals, never as floats: the digits in the record are the digits counted. A
value has up to 15 digits before the point and 15 after it, so that a counter's total has room for
a hundred million of the largest ones within DynamoDB's 38.

Pure: no clock, no randomness, no I/O.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, localcontext
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, NoReturn

from ledger.core import amounts, keys
from ledger.core.errors import InvalidInput, SettingsError
from ledger.pipeline.core.category_sums import CategorySums
from ledger.pipeline.core.form_fingerprints import fingerprint_of
from ledger.pipeline.core.kept_fields import bounded, dumped, kept_of
from ledger.pipeline.core.record_times import period_of, time_of
from ledger.primitives.versions.version_rules import checked_version
from ledger.settings import Settings
from ledger.settings.templates import Field, Path, path_of, template_of

WHOLE_DIGITS_MAX = 15
DECIMALS_MAX = 15
RECORD_ID_BYTES_MAX = 1024
REMEMBERED_MAX = 10_000
"""Combinations of field values whose categories, or home region, are remembered."""
ADAPTED_BY = "~adapt"
"""The key, in what a state keeps, of the function that returned the record."""
READER = 1
"""Raised by each release that reads some record otherwise than the one before."""
_LIMITS = (WHOLE_DIGITS_MAX, DECIMALS_MAX, RECORD_ID_BYTES_MAX, READER)
_SHOWN_CHARACTERS = 60
_REASON_CHARACTERS_MAX = 300


Adapt = Callable[[dict[str, Any]], object]
"""Takes a record as JSON gave it, and returns the one to be read; see `record_adapter`."""


class Delivery(NamedTuple):
    """One record as a source gives it.

    `position` is its place in the lane: texts of one width whose order is the lane's. `at` is
    when it came to the source, if that is known. `problem` is why it cannot be taken, where the
    source knows that already.
    """

    position: str
    raw: bytes
    at: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A version of a record: its value counts in each of its categories, once, 1 in `counted`.

    `kept` is what its state keeps for other forms; see `ledger.pipeline.core.kept_fields`.
    """

    id: str
    version: int
    value: Decimal
    categories: tuple[str, ...]
    home: str
    counted: tuple[str, ...] = ()
    kept: str = field(default="", compare=False)
    at: datetime | None = field(default=None, compare=False)
    """Its own time, where records have one."""


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that cannot be taken, and why; its id, if that can be read, and where it may be."""

    reason: str
    id: str = ""
    homes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Lacking:
    """A state that does not keep what a form needs of its record, and the missing field."""

    reason: str


class _Bad(ValueError):
    """Why a record cannot be taken."""


class _Missing(_Bad):
    """The record has no such field."""


class RecordForm:
    """How the bytes of a record are read: the `pipeline` group of the settings, ready for use.

    Without patterns of homes `home`, by default that of the settings, keeps every state. `adapt` is
    the function that the settings name, if they name one; states keep what it returned.

    Raises:
        SettingsError: no category is configured, or no fields.
    """

    def __init__(self, settings: Settings, *, home: str = "", adapt: Adapt | None = None) -> None:
        chosen = settings.pipeline
        if (chosen.adapt is None) != (adapt is None):
            raise SettingsError(f"pipeline.adapt is {chosen.adapt!r}, the function given {adapt!r}")
        self._adapt, self._adapted_by = adapt, chosen.adapt
        if not chosen.categories:
            raise SettingsError(
                "pipeline.categories is empty: name the counters that a record adds to, such as"
                " risk/{Hierarchy.RiskType}"
            )
        if chosen.fields is None:
            raise SettingsError(
                "pipeline.fields is missing: name the fields of a record, such as"
                " {id: OrderId, version: Version, value: Amount}"
            )
        self._bytes_max = chosen.record_bytes_max
        self._is_book = settings.is_book
        self._id = path_of(chosen.fields.id)
        self._version = path_of(chosen.fields.version)
        self._value = path_of(chosen.fields.value)
        self._time = path_of(chosen.fields.time) if chosen.fields.time else None
        self._templates = tuple(template_of(text) for text in chosen.categories)
        self._counted = tuple(template_of(text) for text in chosen.measures.count)
        templates = (*self._templates, *self._counted)
        fields = [field for template in templates for field in template.fields]
        self._fields = tuple(dict.fromkeys(fields))
        self._keeps_all = chosen.keep_fields == "all"
        more = () if self._keeps_all else map(path_of, chosen.keep_fields)
        marks = [] if adapt is None else [(ADAPTED_BY,)]
        self._keep = tuple(dict.fromkeys([*(field.path for field in fields), *more, *marks]))
        self._keeps_texts = not chosen.keep_fields and not any(field.form for field in fields)
        self._decode: Callable[[str], Any] = json.JSONDecoder(
            parse_float=partial(Decimal, context=amounts.EXACT), parse_constant=_no_constant
        ).decode
        self._categories = lru_cache(REMEMBERED_MAX)(self._render)
        self._homes = dict(chosen.home.regions)
        self._home_path = path_of(chosen.home.field or chosen.fields.id)
        self._home = lru_cache(REMEMBERED_MAX)(self._match)
        self._fixed_home = "" if self._homes else home or settings.home
        self._parts = {
            "fields": chosen.fields.model_dump(),
            "categories": chosen.categories,
            "measures": chosen.measures.model_dump(),
            "homes": {"field": self._home_path, "regions": self._homes},
            "deletes": chosen.deletes,
        }
        if chosen.adapt is not None:
            self._parts["adapt"] = chosen.adapt

    @property
    def has_patterns(self) -> bool:
        """Whether patterns decide which region keeps a record's state."""
        return bool(self._homes)

    @property
    def time_field(self) -> str:
        """The field with a record's own time; empty if there is none."""
        return ".".join(self._time or ())

    @property
    def homes(self) -> frozenset[str]:
        """Every region that is home to some record."""
        return frozenset(self._homes.values() or [self._fixed_home])

    @cached_property
    def parts(self) -> Mapping[str, Any]:
        """What decides the result of a record, part by part."""
        return {**self._parts, "limits": [self._bytes_max, *_LIMITS]}

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the parts: equal for forms that read every record alike."""
        return fingerprint_of(self.parts)

    def take(self, delivery: Delivery) -> Record | Poison:
        """Read the record of a delivery, unless its source knows why it cannot be taken."""
        if delivery.problem:
            return self._poison(delivery.raw, delivery.problem)
        return self.read(delivery.raw)

    def read(self, raw: bytes) -> Record | Poison:
        """Read a record; a broken rule becomes one line."""
        try:
            found = self._object(raw)
            record = self._record(found)
            if not self._keeps_all:
                return record
            text = raw.decode() if self._adapt is None else dumped(self._marked(found))
            return replace(record, kept=bounded(text))
        except (_Bad, InvalidInput) as error:
            return self._poison(raw, str(error))

    def time_of(self, delivery: Delivery) -> datetime | None:
        """Return a record's own time, or when it came to its source; None if neither is known."""
        if self._time is not None and not delivery.problem:
            with suppress(_Bad):
                return _time(self._object(delivery.raw), self._time)
        return delivery.at

    def _poison(self, raw: bytes, reason: str) -> Poison:
        """Return a record that cannot be taken, with its id and homes as far as they are known."""
        poison = Poison(reason[:_REASON_CHARACTERS_MAX])
        try:
            found = self._adapted(raw)
            poison = replace(poison, id=_record_id(found, self._id), homes=self.homes)
            home = self._fixed_home or self._home(_label(found, self._home_path))
            return replace(poison, homes=frozenset({home}))
        except (_Bad, InvalidInput):
            return poison

    def _object(self, raw: bytes) -> Mapping[str, Any]:
        if len(raw) > self._bytes_max:
            raise _Bad(f"the record has {len(raw):,} bytes: up to {self._bytes_max:,} are read")
        return self._adapted(raw)

    def _adapted(self, raw: bytes) -> Mapping[str, Any]:
        found = self._parsed(raw)
        if self._adapt is None:
            return found
        try:
            with localcontext(amounts.GIVEN):
                adapted = self._adapt(found)
        except Exception as error:  # noqa: BLE001 (whatever it raises, the record is not taken)
            raise _Bad(f"pipeline.adapt: {type(error).__name__}: {error}") from None
        if not isinstance(adapted, dict):
            raise _Bad(f"pipeline.adapt returned {_shown(adapted)}: a dict is needed")
        return adapted

    def _parsed(self, raw: bytes) -> dict[str, Any]:
        try:
            found = self._decode(raw.decode())
        except UnicodeDecodeError:
            raise _Bad("the record is not UTF-8") from None
        except json.JSONDecodeError as error:
            raise _Bad(f"the record is not JSON: {error.msg} at character {error.pos}") from None
        except RecursionError:
            raise _Bad("the record is nested too deeply") from None
        except (ValueError, ArithmeticError) as error:  # NaN, thousands of digits
            raise _Bad(f"the record holds a number that cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise _Bad("the record is not a JSON object")
        return found

    def _record(self, found: Mapping[str, Any]) -> Record:
        texts = tuple([_text(found, field) for field in self._fields])
        at = None if self._time is None else _time(found, self._time)
        categories, counted, kept = self._categories(texts)
        return Record(
            id=_record_id(found, self._id),
            version=_version(found, self._version),
            value=_value(found, self._value),
            categories=categories,
            home=self._fixed_home or self._home(_label(found, self._home_path)),
            counted=counted,
            kept=kept if self._keeps_texts or self._keeps_all else self._kept(found),
            at=at,
        )

    def _kept(self, found: Mapping[str, Any]) -> str:
        return kept_of(self._marked(found), self._keep)

    def _marked(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record to be kept, with the function that returned it, if one did."""
        return found if self._adapted_by is None else {**found, ADAPTED_BY: self._adapted_by}

    @property
    def keeps_value(self) -> bool:
        """Whether states keep the field of the value too."""
        return self._keeps_all or self._value in self._keep

    def image_of(self, kept: str, value: Decimal | None) -> CategorySums | Poison | Lacking:
        """Return what a version adds, computed from its state's kept fields and its value.

        The value is taken from what is kept, if it is there; it must be, where `value` is None.
        """
        try:
            found = self._parsed(kept.encode()) if kept else {}
            by = found.pop(ADAPTED_BY, None)
            if by != self._adapted_by:
                made = "its record as it came" if by is None else f"what {by} returned"
                return Lacking(f"it keeps {made}, and pipeline.adapt is {self._adapted_by}")
            texts = tuple([_text(found, field) for field in self._fields])
            categories, counted, _ = self._categories(texts)
            try:
                value = _value(found, self._value)
            except _Missing:
                if value is None:
                    raise
        except _Missing as error:
            return Lacking(str(error))
        except (_Bad, InvalidInput) as error:
            return Poison(str(error)[:_REASON_CHARACTERS_MAX])
        return CategorySums(value, categories, counted)

    def _render(self, texts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
        values = dict(zip(self._fields, texts, strict=True))
        categories, counted = (
            {keys.checked_new_counter(template.render(values)) for template in templates}
            for templates in (self._templates, self._counted)
        )
        if both := sorted(categories & counted):
            raise _Bad(f"{both[0]} is of pipeline.categories and pipeline.measures: one or other")
        if book := next(filter(self._is_book, sorted(categories | counted)), None):
            raise _Bad(
                f"category {book!r} is a book, by a pattern of `books` in the table's contract: it"
                " takes transfers alone"
            )
        return tuple(sorted(categories)), tuple(sorted(counted)), self._texts_kept(texts)

    def _texts_kept(self, texts: tuple[str, ...]) -> str:
        """Return what a state keeps if that is only the texts of labels."""
        if not self._keeps_texts:
            return ""
        found: dict[str, Any] = {}
        for taken, text in zip(self._fields, texts, strict=True):
            place = found
            for name in taken.path[:-1]:
                place = place.setdefault(name, {})
            place[taken.path[-1]] = text
        return self._kept(found)

    def _match(self, text: str) -> str:
        for pattern, region in self._homes.items():
            if fnmatchcase(text, pattern):
                return region
        name = ".".join(self._home_path)
        raise _Bad(f"{name} {_shown(text)} matches none of pipeline.home.regions")


def _at(found: Any, path: Path) -> Any:
    try:
        for name in path:
            found = found[name]
    except (KeyError, TypeError):  # only objects have fields
        raise _Missing(f"the record has no field {'.'.join(path)}") from None
    return found


def _label(found: Mapping[str, Any], path: Path) -> str:
    """Return a field that names something: a text, or a whole number as text."""
    value = _at(found, path)
    if type(value) is str and value:  # the common case
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise _Bad(f"{'.'.join(path)} is {_shown(value)}: a text or a whole number is needed")
    return value


def _text(found: Mapping[str, Any], field: Field) -> str:
    if not field.form:
        return _label(found, field.path)
    return period_of(_time(found, field.path), field.form)


def _time(found: Mapping[str, Any], path: Path) -> datetime:
    value = _at(found, path)
    try:
        return time_of(value)
    except ValueError as error:
        raise _Bad(f"{'.'.join(path)} is {_shown(value)}: {error}") from None


def _record_id(found: Mapping[str, Any], path: Path) -> str:
    label = _label(found, path)
    try:
        size = len(label) if label.isascii() else len(label.encode())
    except UnicodeEncodeError:
        raise _Bad(f"{'.'.join(path)} {_shown(label)} cannot be written in UTF-8") from None
    if size > RECORD_ID_BYTES_MAX:
        raise _Bad(f"{'.'.join(path)} {_shown(label)} is over {RECORD_ID_BYTES_MAX:,} bytes")
    return label


def _version(found: Mapping[str, Any], path: Path) -> int:
    value = _at(found, path)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Bad(f"{'.'.join(path)} is {_shown(value)}: a version is a whole number")
    return checked_version(value)


def _value(found: Mapping[str, Any], path: Path) -> Decimal:
    value = _at(found, path)
    if type(value) is Decimal:
        text = amounts.as_written(value)
        if len(text) <= DECIMALS_MAX and "E" not in text:  # the common case
            return value or Decimal(0)
    try:
        number = amounts.parse(value) if isinstance(value, str) else amounts.exact(value)
    except InvalidInput as error:
        raise _Bad(f"{'.'.join(path)}: {error}") from None
    if not number:
        return Decimal(0)
    if number.adjusted() >= WHOLE_DIGITS_MAX or _decimals(number) > DECIMALS_MAX:
        raise _Bad(
            f"{'.'.join(path)} {_shown(value)} is out of bounds: up to {WHOLE_DIGITS_MAX} digits"
            f" before the point and {DECIMALS_MAX} after it are counted"
        )
    return number


def _decimals(number: Decimal) -> int:
    """Return how many digits after the point matter."""
    places = -int(number.as_tuple().exponent)
    if places <= DECIMALS_MAX:
        return places
    return -int(number.normalize(amounts.EXACT).as_tuple().exponent)


def _no_constant(name: str) -> NoReturn:
    raise _Bad(f"{name} is not a number")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
