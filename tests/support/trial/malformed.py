"""49 kinds of records that cannot be taken, each with what its dead letter's reason must say."""

import json
from collections.abc import Callable, Mapping
from typing import Any

Made = Mapping[str, Any]
ID_BYTES_MAX, RECORD_BYTES_MAX, CATEGORY_BYTES_MAX = 1_024, 65_536, 1_024
DEPTH, LONG_DIGITS = 30_000, 5_000


def encoded(record: Made) -> bytes:
    """Return a record as its producer writes it."""
    return json.dumps(record).encode()


def _other(record: Made, path: str, value: Any) -> bytes:
    """Return the record with another value at a path; the text `VALUE` is replaced as it is."""
    first, *rest = path.split(".")
    changed = {**record, first: {**record[first], rest[0]: value} if rest else value}
    return encoded(changed)


def _without(record: Made, path: str) -> bytes:
    first, *rest = path.split(".")
    if rest:
        left = {name: value for name, value in record[first].items() if name != rest[0]}
        return encoded({**record, first: left})
    return encoded({name: value for name, value in record.items() if name != first})


def _literal(record: Made, path: str, text: str) -> bytes:
    return _other(record, path, "LITERAL").replace(b'"LITERAL"', text.encode())


def _set(path: str, value: Any) -> Callable[[Made], bytes]:
    return lambda record: _other(record, path, value)


def _as(path: str, text: str) -> Callable[[Made], bytes]:
    return lambda record: _literal(record, path, text)


def _lacks(path: str) -> Callable[[Made], bytes]:
    return lambda record: _without(record, path)


def _around(before: str, after: str) -> Callable[[Made], bytes]:
    return lambda record: before.encode() + encoded(record) + after.encode()


_ID, _VERSION, _VALUE, _ACCOUNT = "Row.Id", "Row.Version", "Amount", "Place.Account"
_NO_JSON, _NO_OBJECT = "not JSON", "not a JSON object"
_NAME, _WHOLE = "a text or a whole number", "a version is a whole number"
_NUMBER, _BOUNDS = "must be a decimal number", "out of bounds"

KINDS: Mapping[str, tuple[Callable[[Made], bytes], str]] = {
    "bytes that are no UTF-8": (lambda made: b"\xff\xfe" + encoded(made), "not UTF-8"),
    "cut off": (lambda made: encoded(made)[:-3], _NO_JSON),
    "two objects in a line": (_around("", ' {"a": 1}'), _NO_JSON),
    "single quotes": (lambda made: encoded(made).replace(b'"', b"'"), _NO_JSON),
    "a mark of byte order": (_around("\ufeff", ""), _NO_JSON),
    "a raw control character": (_as("Place.Kind", '"a\x01b"'), _NO_JSON),
    "a fraction without digits": (_as(_VALUE, "1."), _NO_JSON),
    "a leading zero": (_as(_VALUE, "007"), _NO_JSON),
    "an array": (_around("[", "]"), _NO_OBJECT),
    "a text": (lambda made: json.dumps(encoded(made).decode()).encode(), _NO_OBJECT),
    "a number": (lambda made: str(made["Serial"]).encode(), _NO_OBJECT),
    "NaN": (_as(_VALUE, "NaN"), "NaN is not a number"),
    "Infinity": (_as(_VALUE, "-Infinity"), "-Infinity is not a number"),
    "nested deeply": (_as("Place.Deep", "[" * DEPTH + "]" * DEPTH), "nested too deeply"),
    "too long": (_set("Place.Long", "x" * RECORD_BYTES_MAX), "bytes: up to 65,536 are read"),
    "a number of 5,000 digits": (_as(_VALUE, "9" * LONG_DIGITS), "number that cannot be read"),
    "no id": (_lacks(_ID), "no field Row.Id"),
    "id null": (_set(_ID, None), _NAME),
    "id empty": (_set(_ID, ""), _NAME),
    "id a bool": (_as(_ID, "true"), _NAME),
    "id a fraction": (_set(_ID, 1.5), _NAME),
    "id a list": (_set(_ID, ["1"]), _NAME),
    "id half a surrogate pair": (_as(_ID, '"a\\ud8007"'), "cannot be written in UTF-8"),
    "id over 1,024 bytes": (_set(_ID, "7" * (ID_BYTES_MAX + 1)), "over 1,024 bytes"),
    "what holds id is a number": (_set("Row", 5), "no field Row.Id"),
    "no version": (_lacks(_VERSION), "no field Row.Version"),
    "version a text": (_set(_VERSION, "7"), _WHOLE),
    "version a fraction": (_set(_VERSION, 7.5), _WHOLE),
    "version with an exponent": (_as(_VERSION, "1e3"), _WHOLE),
    "version a bool": (_as(_VERSION, "true"), _WHOLE),
    "version null": (_set(_VERSION, None), _WHOLE),
    "version below zero": (_set(_VERSION, -1), "version"),
    "version of 39 digits": (_set(_VERSION, 10**38), "version"),
    "no value": (_lacks(_VALUE), "no field Amount"),
    "value null": (_set(_VALUE, None), "must be an int or a Decimal"),
    "value a bool": (_as(_VALUE, "false"), "must be an int or a Decimal"),
    "value a list": (_set(_VALUE, [1]), "must be an int or a Decimal"),
    "value empty": (_set(_VALUE, ""), _NUMBER),
    "value with a comma": (_set(_VALUE, "12,50"), _NUMBER),
    "value with an underscore": (_set(_VALUE, "1_000"), _NUMBER),
    "value in wide digits": (_set(_VALUE, "\uff11\uff12"), _NUMBER),
    "value the text NaN": (_set(_VALUE, "NaN"), "finite"),
    "value of 16 whole digits": (_set(_VALUE, "1" * 16), _BOUNDS),
    "value of 16 decimals": (_set(_VALUE, "0." + "1" * 16), _BOUNDS),
    "value 1E+400": (_as(_VALUE, "1E+400"), "must be within"),
    "no category": (_lacks(_ACCOUNT), "no field Place.Account"),
    "category empty": (_set(_ACCOUNT, ""), _NAME),
    "category with a control character": (_set(_ACCOUNT, "a\nb"), "control characters"),
    "category over 1,024 bytes": (_set(_ACCOUNT, "a" * CATEGORY_BYTES_MAX), "1 to 1,024 bytes"),
}
"""By name: how a good record is spoilt, and what the reason must contain."""
