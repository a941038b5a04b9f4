"""Forms by their fingerprints: a digest of everything that decides a record's result.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

Parts = Mapping[str, Any]
"""What decides the result of a record, part by part."""
FINGERPRINT_DIGITS = 16
_SHOWN_CHARACTERS = 120


def canonical(parts: Parts) -> str:
    """Return parts as JSON, the same text for the same parts."""
    return json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint_of(parts: Parts) -> str:
    """Return the digest of parts: equal for equal parts, and only for those in practice."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:FINGERPRINT_DIGITS]


def differences(before: Parts, now: Parts) -> str:
    """Return in words which parts differ."""
    if not before:
        return "which parts differ is unknown"
    texts = [(name, _text(before.get(name)), _text(now.get(name))) for name in {*before, *now}]
    return "; ".join(
        f"{name} was {_shown(was)}, is {_shown(text)}"
        for name, was, text in sorted(texts)
        if was != text
    )


def _text(value: object) -> str:
    """Return a part as JSON, in which stored and current parts compare as equal."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
