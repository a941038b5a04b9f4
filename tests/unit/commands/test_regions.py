from collections.abc import Sequence

import pytest

from ledger.commands.regions import ask_each, home_or, region_of
from ledger.core.errors import InvalidInput, SettingsError, Unreachable
from ledger.settings import Settings

HOME, AWAY, FAR = "us-east-1", "eu-west-1", "ap-southeast-1"
SETTINGS = Settings(home=HOME, regions={HOME: {}, AWAY: {}, FAR: {}})


@pytest.mark.parametrize(
    ("given", "ours", "of_aws", "chosen"),
    [
        (FAR, AWAY, HOME, FAR),
        (None, AWAY, FAR, AWAY),
        (None, None, AWAY, AWAY),
        (None, None, "mars-1", HOME),
        (None, None, "", HOME),
        (None, None, None, HOME),
    ],
)
def test_the_region_is_resolved_in_one_order(
    given: str | None,
    ours: str | None,
    of_aws: str | None,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The option, LEDGER_REGION, AWS_REGION if it is one of the regions, the home."""
    for name, value in (("LEDGER_REGION", ours), ("AWS_REGION", of_aws)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert region_of(SETTINGS, given) == chosen
    assert home_or(SETTINGS, given) == (given or HOME)


def test_an_empty_or_unknown_region_is_named_with_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An empty value is refused, not taken for none."""
    with pytest.raises(InvalidInput, match=r"--region is empty: it must be one of us-east-1"):
        region_of(SETTINGS, "")
    with pytest.raises(InvalidInput, match="--region is empty"):
        home_or(SETTINGS, "")
    with pytest.raises(InvalidInput, match="--region: 'mars-1' is not one of the regions"):
        region_of(SETTINGS, "mars-1")
    with pytest.raises(InvalidInput, match=r"us-east-1, .*; did you mean us-east-1\?"):
        region_of(SETTINGS, "us-esat-1")
    monkeypatch.setenv("LEDGER_REGION", "")
    with pytest.raises(InvalidInput, match="LEDGER_REGION is empty"):
        region_of(SETTINGS, None)
    monkeypatch.setenv("LEDGER_REGION", "mars-1")
    with pytest.raises(SettingsError, match="LEDGER_REGION: 'mars-1' is not one of the regions"):
        region_of(SETTINGS, None)


async def _ask(region: str) -> Sequence[str]:
    if region == AWAY:
        raise Unreachable(f"{AWAY}: no answer")
    return [f"{region} 1", f"{region} 2"]


async def test_regions_that_answer_are_shown_without_those_that_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In their order; the missing one is named; of a single region the error is raised."""
    answers = await ask_each([HOME, AWAY, FAR], _ask)
    assert answers.found == [f"{HOME} 1", f"{HOME} 2", f"{FAR} 1", f"{FAR} 2"]
    assert list(answers.errors) == [AWAY]
    answers.say_missing()
    assert capsys.readouterr().err == f"error: no answer from {AWAY}: no answer\n"
    with pytest.raises(Unreachable):
        await ask_each([AWAY], _ask)


async def test_a_wrong_question_is_an_error_in_every_region() -> None:
    """Bad input is raised, not taken for a region that is down."""

    async def wrong(region: str) -> Sequence[str]:
        raise InvalidInput(f"wrong in {region}")

    with pytest.raises(InvalidInput, match="wrong in"):
        await ask_each([HOME, AWAY], wrong)
