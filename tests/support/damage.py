"""What a careless hand, a foreign program or a broken disk leaves behind, for fuzzing."""

from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ledger.core import amounts
from ledger.core.entry import AttributeValue, Item
from ledger.core.errors import DamagedItem

EDITS_MAX = 6
COUNTER = "customer1-balance"

# Strategies are made once: making one again at every draw takes longer than drawing from it.


@cache
def short_texts() -> st.SearchStrategy[str]:
    """Texts that UTF-8 can hold."""
    return st.text(st.characters(codec="utf-8"), max_size=8)


@cache
def numbers() -> st.SearchStrategy[str]:
    """Texts of numbers as DynamoDB returns them."""
    return st.builds(
        lambda digits, places: amounts.to_text(Decimal(digits).scaleb(places)),
        st.integers(-(10**12), 10**12),
        st.integers(-100, 100),
    )


def _plain() -> st.SearchStrategy[dict[str, Any]]:
    contents: dict[str, st.SearchStrategy[Any]] = {
        "S": short_texts(),
        "N": numbers(),
        "B": st.binary(max_size=40),
        "BOOL": st.booleans(),
        "NULL": st.just(True),  # noqa: FBT003 (what DynamoDB returns)
        "SS": st.lists(short_texts(), min_size=1, max_size=3),
        "NS": st.lists(numbers(), min_size=1, max_size=3),
        "BS": st.lists(st.binary(max_size=9), min_size=1, max_size=3),
    }
    return st.one_of([st.fixed_dictionaries({kind: content}) for kind, content in contents.items()])


@cache
def attribute_values() -> st.SearchStrategy[AttributeValue]:
    """Any attribute value that DynamoDB can hold, of every kind."""
    nested: dict[str, st.SearchStrategy[Any]] = {
        "L": st.lists(_plain(), max_size=2),
        "M": st.dictionaries(short_texts(), _plain(), max_size=2),
    }
    return st.one_of(
        _plain(),
        *[st.fixed_dictionaries({kind: content}) for kind, content in nested.items()],
    )


@cache
def odd_numbers() -> st.SearchStrategy[AttributeValue]:
    """Numbers at the edge, and texts that are none, where a number is looked for."""
    edge = ["", "NaN", "Infinity", "-0", "1E-131", "9E126", "1e999999999999", "0x10", "1_000"]
    edge += ["\N{ARABIC-INDIC DIGIT ONE}", " 1 ", "1E-130"]
    digits = st.integers(10**37, 10**40).map(str)
    return st.one_of(
        st.builds(lambda number: {"N": str(number)}, st.integers(-3, 10)),
        st.builds(lambda text: {"N": text}, st.sampled_from(edge)),
        st.builds(lambda text: {"N": text}, st.one_of(digits, numbers(), short_texts())),
    )


@cache
def _replacements() -> st.SearchStrategy[AttributeValue | None]:
    return st.one_of(st.none(), attribute_values(), odd_numbers())


@st.composite
def damaged(draw: st.DrawFn, item: Item) -> tuple[str, dict[str, AttributeValue]]:
    """Give the item with one attribute, not of its key, lost or of any other content; which one."""
    name = draw(st.sampled_from(sorted(item.keys() - {"pk", "sk"})))
    after = {key: value for key, value in item.items() if key != name}
    replaced = draw(_replacements())
    if replaced is not None:
        after[name] = replaced
    return name, after


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Give bytes in which a few places were flipped, lost, doubled, moved or made up."""
    for _ in range(draw(st.integers(1, EDITS_MAX))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 8)))
        part, before, after = content[start:end], content[:start], content[end:]
        match draw(st.sampled_from(["flip", "lose", "double", "move", "make up"])):
            case "flip":
                mask = draw(st.integers(1, 255))
                content = before + bytes(one ^ mask for one in part) + after
            case "lose":
                content = before + after
            case "double":
                content = before + part + part + after
            case "move":
                content = after + before + part
            case _:
                content = before + draw(st.binary(max_size=8)) + after
    return content


def assert_named(error: DamagedItem, item: Item) -> None:
    """Check that the error names the item and its counter, in one line."""
    assert repr(item["sk"]["S"]) in str(error)
    assert repr(item["pk"]["S"]) in str(error)
    assert "\n" not in str(error)


def number_in(item: Item, name: str) -> Fraction | None:
    """Read a number as this test understands it, apart from the code under test."""
    try:
        text = item[name]["N"]
        assert text.strip().isascii()
        assert "_" not in text
        number = Decimal(text.strip())
        amounts.within_range(number)
        return Fraction(number)
    except (KeyError, ArithmeticError, ValueError, AssertionError):
        return None
