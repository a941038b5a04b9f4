import pytest

from ledger.settings.templates import Field, look_up, path_of, template_of


@pytest.mark.parametrize(
    ("text", "values", "rendered"),
    [
        ("all", {}, "all"),
        ("{T:day}/{T}", {Field(("T",), "day"): "2026-11-22", Field(("T",)): "x"}, "2026-11-22/x"),
        ("{Desk}", {Field(("Desk",)): "A"}, "A"),
        (
            "risk/{H.Type}/{H.Desk}",
            {Field(("H", "Type")): "Delta", Field(("H", "Desk")): "B"},
            "risk/Delta/B",
        ),
        ("{{x}}-{a}", {Field(("a",)): "1"}, "{x}-1"),
    ],
)
def test_fields_stand_in_braces(text: str, values: dict[Field, str], rendered: str) -> None:
    """A template's fields are replaced by their values; doubled braces are literal."""
    template = template_of(text)
    assert set(template.fields) == set(values)
    assert template.render(values) == rendered


@pytest.mark.parametrize(
    "text", ["{", "}", "{}", "{a.}", "{.a}", "{a!r}", "{a:>5}", "{a:year}", "{a..b}"]
)
def test_what_is_no_template_is_refused(text: str) -> None:
    """Braces hold a dotted path and nothing else."""
    with pytest.raises(ValueError, match=r"template|field"):
        template_of(text)


def test_a_path_leads_into_objects_only() -> None:
    """A dotted path goes from object to object, and fails where one is missing or is none."""
    record = {"a": {"b": {"c": 1}}, "text": "abc"}
    assert look_up(record, path_of("a.b.c")) == 1
    for text in ("a.x", "x", "text.0", "a.b.c.d"):
        with pytest.raises(KeyError):
            look_up(record, path_of(text))


def test_a_path_is_bounded() -> None:
    """A path that no one wrote by hand is refused."""
    with pytest.raises(ValueError, match="dots"):
        path_of("a" * 257)
