"""DynamoDB's JSON, fast: requests to bytes, and bytes to answers.

Binary values (`{"B": b"..."}`) are base64 inside JSON. For requests orjson calls back for every
`bytes`; answers are searched for them only if they can contain one.
"""

from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Mapping
from typing import Any

import orjson
from botocore.exceptions import ParamValidationError

from ledger.runtime.aws_answers import LARGE_BYTES
from ledger.runtime.gc import gc_paused, pause_gc_for_this_turn

_NODES = (dict, list)
_MAYBE_BINARY = b'"B'


def encode(request: Mapping[str, Any]) -> bytes:
    """Return a request's body.

    Raises:
        ParamValidationError: it holds what JSON cannot, such as an unpaired surrogate.
    """
    try:
        return orjson.dumps(request, default=_plain)
    except TypeError as error:
        raise ParamValidationError(report=str(error)) from None


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not an attribute value")


def decode(body: bytes) -> dict[str, Any]:
    """Return an answer, its binary values as bytes.

    Raises:
        ValueError: it is not a JSON object, or a binary value is not base64.
    """
    answer = _loads(body) if body else {}
    if not isinstance(answer, dict):
        raise ValueError(f"a {type(answer).__name__} is not an answer")  # noqa: TRY004 (see Raises)
    if binaries := body.count(_MAYBE_BINARY):
        try:
            _read_binaries(answer, binaries)
        except (AttributeError, TypeError, RecursionError) as error:
            raise ValueError(str(error)) from error
    return answer


def _loads(body: bytes) -> Any:
    if len(body) < LARGE_BYTES:
        return orjson.loads(body)
    pause_gc_for_this_turn()  # nearly always the page is summed and dropped within it
    with gc_paused():
        return orjson.loads(body)


def _read_binaries(answer: dict[str, Any], most: int) -> None:
    """Replace base64 by bytes in an answer that holds at most `count` binary values.

    The items of a page are searched from its end, and only until the last value is found: the net
    change sorts after thousands of entries, which have none.
    """
    items = answer.get("Items")
    if not isinstance(items, list):
        _into_bytes(answer)
        return
    left = most
    for item in reversed(items):
        if left <= 0:
            return
        for value in item.values():
            if "S" in value or "N" in value:  # as in nearly all items
                continue
            text = value.get("B") if isinstance(value, dict) else None
            if isinstance(text, str) and len(value) == 1:
                value["B"] = a2b_base64(text, strict_mode=True)
                left -= 1
            else:
                left -= _into_bytes(value)
    if left > 0:
        for part in answer.values():
            if part is not items and isinstance(part, _NODES):
                _into_bytes(part)


def _into_bytes(node: Any) -> int:
    """Replace base64 by bytes wherever a key `B` or `BS` holds it; return how often.

    An attribute that is itself named `B` or `BS` holds a mapping, so the two cannot be mistaken.
    """
    found = 0
    if isinstance(node, list):
        for part in node:
            if isinstance(part, _NODES):
                found += _into_bytes(part)
    elif isinstance(node, dict):
        for name, content in node.items():
            if name == "B" and isinstance(content, str):
                node[name] = a2b_base64(content, strict_mode=True)
                found += 1
            elif name == "BS" and isinstance(content, list):
                node[name] = [a2b_base64(part, strict_mode=True) for part in content]
                found += 1
            elif isinstance(content, _NODES):
                found += _into_bytes(content)
    return found
