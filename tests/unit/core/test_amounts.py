"""Amounts: what is taken, what is refused, and how it is written."""

import math
from decimal import ROUND_UP, Context, Decimal, DefaultContext, localcontext

import pytest
from support.decimals import STRICT

from ledger.core import amounts
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidInput

NINES = 10**38 - 1


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        NINES,
        -NINES,
        10**38,
        10**125,
        Decimal("2.50"),
        Decimal("-0.01"),
        Decimal("1E-130"),
        Decimal("9.9999999999999999999999999999999999999E+125"),
        Decimal("1.2345678901234567890123456789012345678"),
        Decimal(NINES).scaleb(-167, amounts.EXACT),
        Decimal("1" + "0" * 100),
    ],
)
def test_an_exact_amount_is_taken_as_it_is(value: int | Decimal) -> None:
    """Ints and Decimals of up to 38 significant digits are taken without a change."""
    assert amounts.exact(value) == value


@pytest.mark.parametrize(
    "context",
    [STRICT, Context(prec=2, capitals=0, traps=[]), Context(rounding=ROUND_UP, Emax=3, Emin=-3)],
    ids=["strict", "without traps", "few exponents"],
)
def test_no_context_of_the_caller_changes_an_amount(context: Context) -> None:
    """Neither its sum nor its text, nor what is refused: `1e500` is no short text of 38 digits."""
    large, small = amounts.parse("9.5E125"), amounts.parse("-1.25")
    with localcontext(context):
        assert amounts.to_text(amounts.total([large, small, large.copy_negate()])) == "-1.25"
        assert amounts.to_text(large) == "9.5E+125"
        assert amounts.as_written(amounts.of_text("1.50")) == "1.50"
        assert amounts.is_whole(large)
        assert not amounts.is_whole(small)
        assert amounts.total_plain(["7", "0.05"]) == amounts.of_text("7.05")
        assert amounts.total_wide(amounts.portion(small, place, 3) for place in range(3)) == small
        with pytest.raises(AmountOverflow, match="got 1E"):
            amounts.parse("1e500")
        with pytest.raises(AmountOverflow):
            amounts.exact(Decimal((0, (1,), 500)))
        with pytest.raises(InvalidAmount, match="a decimal number, got 'x'"):
            amounts.parse("x")


def test_a_context_of_ours_takes_nothing_from_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may change what new contexts begin with before it imports the ledger."""
    for name, value in {"prec": 1, "capitals": 0, "clamp": 1, "Emax": 0}.items():
        monkeypatch.setattr(DefaultContext, name, value)
    made = amounts.context(9, ROUND_UP)
    assert (made.prec, made.capitals, made.clamp, made.Emax) == (9, 1, 0, 1000)
    assert Context().prec == 1


@pytest.mark.parametrize(
    "texts",
    [
        *([], ["1"], ["1E+125"], ["1E+37", "-1E-50", "1E-50"], [str(NINES), "1", "-1"]),
        *(["9" * 16, "0.12345678901234"], ["9" * 16] * 100_000 + ["-.999999999999999"] * 9),
    ],
)
def test_a_sum_that_fits(texts: list[str]) -> None:
    """In 38 digits: by the lengths of its parts, or added up."""
    assert amounts.fits(texts)


@pytest.mark.parametrize(
    "texts", [["1E+37", "0.01"], ["1e+37", "0.01"], [str(NINES), "1.1"], ["9" * 19, "1E-20"]]
)
def test_a_sum_that_does_not_fit(texts: list[str]) -> None:
    """However short the texts of its parts are."""
    assert not amounts.fits(texts)


@pytest.mark.parametrize(
    "value", [0, NINES, -NINES, Decimal("1E-38"), Decimal(f"0.{NINES}"), Decimal("1.5E+37")]
)
def test_a_change_within_38_places_of_the_point_is_taken(value: int | Decimal) -> None:
    """On either side."""
    assert amounts.addend(value) == value


@pytest.mark.parametrize(
    "value", [10**38, -(10**38), 10**100, Decimal("1E-39"), Decimal(f"-0.0{NINES}")], ids=str
)
def test_a_change_beyond_38_places_of_the_point_is_refused(value: int | Decimal) -> None:
    """It is an exact amount, beside which no other change fits: the message says both."""
    assert amounts.exact(value) == value
    rule = "at most 38 digits before the point and 38 after it, got"
    with pytest.raises(AmountOverflow, match=rule) as error:
        amounts.addend(value)
    assert amounts.as_written(Decimal(value))[:40] in str(error.value)


@pytest.mark.parametrize(
    "value",
    [1.0, 0.5, math.nan, math.inf, True, False, "1", b"1", None, 1 + 0j, [1], ...],
    ids=repr,
)
def test_what_is_not_exact_is_refused_by_its_type(value: object) -> None:
    """Floats, booleans, text and anything else that is no int or Decimal is refused."""
    with pytest.raises(InvalidAmount, match=type(value).__name__):
        amounts.exact(value)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "-NaN", "Infinity", "-Infinity"])
def test_what_is_not_finite_is_refused(text: str) -> None:
    """A Decimal that is no finite number is refused, from code and from text."""
    with pytest.raises(InvalidAmount, match="finite"):
        amounts.exact(Decimal(text))
    with pytest.raises(InvalidAmount, match="finite"):
        amounts.parse(text)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (10**38 + 1, "39 digits"),
        (-(10**38) - 1, "39 digits"),
        (Decimal("1" * 39), "39 digits"),
        (Decimal("0." + "1" * 39), "39 digits"),
        (Decimal("0." + "1" * 400), "at most 38 digits"),
        (10**4000 + 1, "within"),
        (10**126, "within"),
        (Decimal("1E+126"), "within"),
        (Decimal("1E-131"), "within"),
        (Decimal("1E+400"), "within"),
        (Decimal("1E+999999"), "within"),
        (Decimal("-1E-999999"), "within"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_does_not_fit_is_refused(value: int | Decimal, rule: str) -> None:
    """A 39th digit, or a magnitude beyond DynamoDB's, is refused with the rule it breaks."""
    with pytest.raises(AmountOverflow, match=rule) as raised:
        amounts.exact(value)
    assert len(str(raised.value)) < 200
    assert isinstance(raised.value, InvalidInput)


def test_39_places_with_a_zero_at_the_end_are_38_digits() -> None:
    """Trailing zeros are no significant digits."""
    assert amounts.exact(NINES * 10) == NINES * 10
    assert amounts.exact(Decimal("1." + "0" * 60)) == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", Decimal(5)),
        (" 5\n", Decimal(5)),
        ("+5", Decimal(5)),
        ("-0.10", Decimal("-0.1")),
        (".5", Decimal("0.5")),
        ("1e3", Decimal(1000)),
        ("-0", Decimal(0)),
        ("0E-500", Decimal(0)),
    ],
)
def test_people_write_amounts_in_several_ways(text: str, number: Decimal) -> None:
    """Signs, exponents and space around an amount are understood."""
    assert amounts.parse(text) == number


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "1,5", "1 000", "1_000", "0x10", "1.2.3", "--1", "١٢", "\uff15", "1e", "$1"],
)
def test_text_that_is_no_amount_is_refused(text: str) -> None:
    """Text that people might mean in several ways, or that is no number, is refused."""
    with pytest.raises(InvalidAmount, match="must be a decimal number"):
        amounts.parse(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0.00", "0"),
        ("2.50", "2.5"),
        ("-1", "-1"),
        ("100", "100"),
        ("1E+2", "100"),
        ("1E+39", "1" + "0" * 39),
        ("1E+40", "1E+40"),
        ("0.001", "0.001"),
        ("1E-39", "0." + "0" * 38 + "1"),
        ("1E-40", "1E-40"),
        ("9.99E+125", "9.99E+125"),
        ("1E-130", "1E-130"),
    ],
)
def test_amounts_are_written_in_one_way(number: str, text: str) -> None:
    """Equal amounts are written alike: no trailing zeros, plain where that is short."""
    assert amounts.to_text(Decimal(number)) == text


def test_a_sum_may_pass_through_values_that_do_not_fit() -> None:
    """An overflow on the way to a sum that fits is none."""
    large = Decimal("9E125")
    assert amounts.total([large, large, Decimal(7), *[large.copy_negate()] * 2]) == 7
    assert amounts.total([]) == 0


def test_a_sum_that_does_not_fit_is_refused() -> None:
    """A sum of amounts that each fit is refused if it needs a 39th digit."""
    with pytest.raises(AmountOverflow):
        amounts.total([Decimal(10**38), Decimal(1)])
    with pytest.raises(AmountOverflow):
        amounts.total([Decimal("9E125"), Decimal("1E125")])


@pytest.mark.parametrize(
    ("texts", "total"),
    [
        ([], "0"),
        (["1", "-2", "0"], "-1"),
        (["0.10", "0.2", "-5"], "-4.70"),
        (["9" * 19, "1"], "1" + "0" * 19),
        ([f"{'9' * 19}.{'9' * 19}", "-1"], f"{'9' * 18}8.{'9' * 19}"),
        (["007", "-0"], "7"),
    ],
)
def test_plain_texts_are_added_exactly(texts: list[str], total: str) -> None:
    """Whole numbers and decimals of a page are told by their form and added without rounding."""
    assert amounts.are_plain(texts)
    assert str(amounts.total_plain(texts)) == total


@pytest.mark.parametrize(
    "text",
    ["", "1,2", ",", "1_0", " 1", "1\n", "+1", "1E3", "NaN", ".5", "5.", "--1", "1" * 20, "\u0661"],
)
def test_other_texts_are_looked_at_one_by_one(text: str) -> None:
    """A text that is no plain number, alone or among others, never passes for one."""
    assert not amounts.are_plain([text])
    assert not amounts.are_plain(["1", text, "2"])


def test_a_text_must_be_a_text() -> None:
    """What is no str is an error, not a number."""
    with pytest.raises(TypeError):
        amounts.are_plain([5])  # type: ignore[list-item]
