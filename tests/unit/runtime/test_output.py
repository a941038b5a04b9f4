"""What commands print cannot act on the terminal, and is whole in every encoding."""

import io
import json
import sys

import pytest

from ledger.runtime.output import print_json, printable, say, tolerate_encodings

ESCAPES = "paid\x1b[2K\x1b]0;title\x07\r\n\x9b31m\u202e001\u2066\u200b\ud800"


def test_text_is_escaped_as_repr_does() -> None:
    """Controls, bidirectional marks, invisible signs and half characters; nothing of a script."""
    shown = printable(ESCAPES)
    assert shown == (r"paid\x1b[2K\x1b]0;title\x07\r\n\x9b31m\u202e001\u2066\u200b\ud800")
    for kept in ("café", "नमस्ते", "مرحبا", "金額", "1\u202f000\xa0€", "a b", "😀"):
        assert printable(kept) == kept


@pytest.mark.parametrize("sign", "\u3164\u2800\ufe0f\u034f\u115f\uffa0\u17b4\ufffc\u180b")
def test_what_is_blank_is_escaped(sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Python calls these printable: two names that look alike are told apart."""
    shown = f"\\u{ord(sign):04x}"
    assert printable(f"paid{sign}") == f"paid{shown}"
    print_json([{"counter": f"paid{sign}"}])
    out = capsys.readouterr().out
    assert shown in out
    assert json.loads(out) == {"counter": f"paid{sign}"}


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A line end in a name makes no second line that could pass for another total."""
    say("a\nb: total 5")
    say("wrong\r", err=True)
    assert capsys.readouterr() == ("a\\nb: total 5\n", "wrong\\r\n")


def test_json_is_escaped_and_stays_exact(capsys: pytest.CaptureFixture[str]) -> None:
    """What JSON itself lets through (C1 controls, bidirectional marks) is escaped as JSON does."""
    print_json([{"note": ESCAPES, "counter": "café"}])
    out = capsys.readouterr().out
    assert out.removesuffix("\n").isprintable()
    assert "café" in out
    assert json.loads(out) == {"note": ESCAPES, "counter": "café"}


def test_an_encoding_that_lacks_a_character_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""On an ASCII terminal a line has `\xe9`, and JSON the escape that parsers know."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    tolerate_encodings()
    say("café")
    print_json([{"counter": "café"}])
    first, second = written.getvalue().decode("ascii").splitlines()
    assert first == r"caf\xe9"
    assert json.loads(second) == {"counter": "café"}
