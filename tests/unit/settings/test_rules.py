"""What pydantic says of a broken rule, in our messages."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from ledger.core.errors import SettingsError
from ledger.http.webhooks import hooks
from ledger.settings.rules import rule_of

ROOT = Path(__file__).resolve().parents[3]


class Ruled(BaseModel):
    """A model with rules of its own."""

    name: str = "a"
    number: int = 1

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if name == "B":
            raise ValueError("Name is B: take another")
        assert name != "C", "Never C"
        return name


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "B"}, "name is B: take another"),
        ({"name": "C"}, "never C"),
        ({"number": "x"}, "input should be a valid integer, unable to parse"),
    ],
)
def test_nothing_of_pydantics_own_is_put_before_a_rule(given: dict[str, str], said: str) -> None:
    """Not `Value error,`; and capitals in it stay."""
    with pytest.raises(ValidationError) as error:
        Ruled.model_validate(given)
    assert rule_of(error.value.errors()[0]).startswith(said)


def test_a_file_of_webhooks_says_the_rule_alone(tmp_path: Path) -> None:
    """As every other place that shows one."""
    file = tmp_path / "hooks.yaml"
    file.write_text("webhooks: {a: {url: 'http://example.com/', secret: s}}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        hooks.read_hooks(file)
    assert "Value error" not in str(error.value)


def test_every_message_of_pydantic_goes_through_one_place() -> None:
    """None is shown as it comes."""
    shown = [
        str(path.relative_to(ROOT))
        for package in ("ledger", "compactor")
        for path in sorted((ROOT / package).rglob("*.py"))
        if '["msg"]' in path.read_text(encoding="utf-8").replace("'", '"')
    ]
    assert shown == ["ledger/settings/rules.py"]
