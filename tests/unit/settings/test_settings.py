import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.setting_files import LOCAL, SMALL, settings, written

from ledger.core.entry import ITEM_BYTES_MAX
from ledger.core.errors import InvalidInput, SettingsError
from ledger.settings import Settings
from ledger.settings.fields import parse_duration
from ledger.settings.groups import (
    FOLD_MAX_LIMIT,
    MERGED_ID_BYTES,
    NET_REST_BYTES_MAX,
    SHARDS_MAX,
    CacheSettings,
    Region,
)
from ledger.settings.model import CONTRACTED


def test_the_shipped_example_is_the_defaults() -> None:
    """The commented regions.yaml at the top level loads and shows each default as it is."""
    example = Settings.load(Path(__file__).parents[3] / "regions.yaml")
    assert list(example.regions) == ["us-east-1", "eu-west-1", "ap-southeast-1"]
    assert example == Settings(home="us-east-1", regions=example.regions)


def test_the_shipped_example_names_each_value_of_the_contract_with_its_default() -> None:
    """They are comments, since the table holds them; none is missing."""
    text = (Path(__file__).parents[3] / "regions.yaml").read_text(encoding="utf-8")
    listed = re.findall(r"^# ([a-z_]+): (\S+) +# ", text, flags=re.MULTILINE)
    named = dict(listed) | {"shards": {}, "unmerged": [], "periods": {}, "archive": []}
    named |= {"combine": [], "index": [], "budgets": {}, "books": []}
    assert [name for name, _ in listed] == list(dict.fromkeys(name for name, _ in listed))
    assert set(named) == set(CONTRACTED)
    example = Settings.load(Path(__file__).parents[3] / "regions.yaml")
    assert not example.model_fields_set & set(CONTRACTED)
    given = example.replace(**named)
    assert given.terms == example.terms


def test_settings_in_code_read_neither_file_nor_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Constructing settings takes arguments and defaults only."""
    written(SMALL + "table: from-file\n")
    monkeypatch.setenv("LEDGER_TABLE", "from-environment")
    assert settings().table == "ledger"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("20s", 20), ("15m", 900), ("5h", 18_000), ("1d", 86_400), ("1.5", 1.5)],
)
def test_durations_may_be_text(text: str, seconds: float) -> None:
    """Each unit, and a bare number as a variable gives it, is read as seconds."""
    assert settings(compactor={"fold_age": text}).compactor.fold_age == seconds


@pytest.mark.parametrize("value", ["36526d", 1e60, 10**60])
def test_a_duration_beyond_a_century_is_refused(value: object) -> None:
    """Dates and timers cannot take any number of seconds."""
    assert settings(compactor={"fold_age": "36525d"}).compactor.fold_age == 36_525 * 86_400
    with pytest.raises(SettingsError, match=r"a duration is at most 36525d \(100 years\)"):
        settings(compactor={"fold_age": value})
    with pytest.raises(InvalidInput, match="and at most 36525d"):
        parse_duration(value)


@pytest.mark.parametrize(
    "value", [-1, "-5m", "5 weeks", "", float("nan"), float("inf"), True, None, "1e3", []]
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    """Negative, endless, truth values and other units are refused with the rule."""
    with pytest.raises(SettingsError, match="a duration is 0 or more seconds"):
        settings(retry_horizon=value)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (
            {"settle": 1260, "retry_horizon": 300},
            r"settle \(1260 s\) .* \(300 \+ 900 \+ 60 = 1260 s\).* twice; 1320s is long enough",
        ),
        (
            {"observation_delay": 15, "read_deadline": 15},
            r"observation_delay \(15 s\) must exceed read_deadline \(15 s\): .* miss an entry",
        ),
        ({"request_timeout": 901}, r"request_timeout \(901 s\) .* signature_lifetime \(900 s\)"),
        ({"write_deadline": 301}, r"write_deadline \(301 s\) .* retry_horizon \(300 s\)"),
        (
            {"compactor": {"lease": 19, "heartbeat": 10}},
            r"compactor\.lease \(19 s\) .*heartbeat \(10 s\)",
        ),
        ({"compactor": {"fold_max": 19}}, r"compactor\.fold_min \(20\) .*fold_max \(19\)"),
        ({"home": "eu-west-2"}, r"home 'eu-west-2' is not .*eu-west-1; did you mean eu-west-1\?"),
        ({"regions": {}}, "at least one region"),
        ({"regions": {"Europe": {}}}, "'Europe' is not the name of a region"),
        ({"table": "my table"}, "3 to 255 of the characters"),
        ({"table": "ab"}, "3 to 255 of the characters"),
        ({"compactor": {"scan_segments": 1001}}, "less than or equal to 1000"),
        ({"compactor": {"concurrency": 0}}, "greater than or equal to 1"),
        ({"compactor": {"concurrency": True}}, "must be a whole number"),
        ({"compactor": {"heartbeat": 0}}, "greater than 0"),
        ({"regions": {"us-east-1": {"endpoint": "localhost:8000"}}}, "an endpoint is a URL"),
        ({"regions": {"us-east-1": {"endpoint": "http://[::1"}}}, "an endpoint is a URL"),
        ({"regions": {"us-east-1": {"profil": "x"}}}, "profil is not a setting"),
        ({"shards": {"": 2}}, "an empty pattern matches no counter"),
        ({"index": ["usage/*", "votes"]}, r"'votes' must end in \*: counters are listed by prefix"),
        ({"index": [""]}, "index"),
        ({"table": "a" * 300}, "a{50}.*[.]{3}: a table name"),
        ({"setle": 5}, "setle is not a setting; did you mean settle"),
    ],
)
def test_each_broken_rule_is_named_with_its_values(values: dict[str, Any], named: str) -> None:
    """The message has the values that clash, in one line."""
    with pytest.raises(SettingsError, match=named) as raised:
        settings(**values)
    assert "\n" not in str(raised.value)


def test_a_net_change_with_the_most_ids_fits_an_item() -> None:
    """The bound of fold_max leaves room in DynamoDB's 400 KB, and one more is refused."""
    assert FOLD_MAX_LIMIT * MERGED_ID_BYTES + NET_REST_BYTES_MAX <= ITEM_BYTES_MAX
    assert settings(compactor={"fold_max": FOLD_MAX_LIMIT}).compactor.fold_max == FOLD_MAX_LIMIT
    with pytest.raises(SettingsError, match="400 KB"):
        settings(compactor={"fold_max": FOLD_MAX_LIMIT + 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"settle": 10},
            "settle (10 s) must exceed signature_lifetime + clock_skew (900 + 60 = 960 s): ",
        ),
        (
            {"settle": 10, "retry_horizon": 5},
            "settle (10 s) must exceed retry_horizon + signature_lifetime + clock_skew (5 + 900",
        ),
        ({"settle": 10, "write_deadline": 5}, "settle (10 s) must exceed signature_lifetime + "),
        ({"observation_delay": 0}, "observation_delay must be over 0 s: "),
        ({"signature_lifetime": 0}, "signature_lifetime must be over 0 s: "),
        (
            {"settle": 1060, "write_deadline": 100},
            "write_deadline (100 s) must not exceed retry_horizon (90 s), which follows from",
        ),
    ],
)
def test_a_broken_relation_names_what_was_given(given: dict[str, float], message: str) -> None:
    """A duration that follows from others is not shown as if it had been set to its last resort."""
    with pytest.raises(SettingsError) as raised:
        settings(**given)
    assert str(raised.value).startswith(message)
    assert len(raised.value.problems) == 1


def test_a_region_may_be_given_without_anything_special() -> None:
    """None, as YAML gives it for an empty value, is a region with the SDK's defaults."""
    assert settings(regions={"us-east-1": None}).region("us-east-1") == Region()


def test_several_broken_relations_are_all_found() -> None:
    """Relations are checked together, not one by one."""
    with pytest.raises(SettingsError) as raised:
        settings(settle=1, observation_delay=1, read_deadline=2, home="eu-west-3")
    assert len(raised.value.problems) == 3


def test_with_changes_and_checks_again() -> None:
    """A group given as a mapping keeps its other fields; a broken rule is still refused."""
    first = settings(cache={"max_age": 5, "counters_max": 9})
    second = first.replace(cache={"max_age": 0}, settle="30m")
    assert second.cache == CacheSettings(max_age=0, counters_max=9)
    assert (second.settle, first.settle) == (1800, 1320)
    with pytest.raises(SettingsError, match="settle"):
        second.replace(retry_horizon="1h")


def test_settings_are_frozen() -> None:
    """Settings that are passed around cannot change under way."""
    with pytest.raises(ValueError, match="frozen"):
        settings().table = "other"  # type: ignore[misc]  # what is shown to fail


def test_an_unknown_region_is_named_with_the_known_ones() -> None:
    """Asking for a region that is not there lists those that are."""
    with pytest.raises(
        SettingsError, match=r"'mars-east-1' is not one of .*: us-east-1, eu-west-1"
    ):
        settings().region("mars-east-1")


SINCE = datetime(2027, 1, 1, tzinfo=UTC)


def test_shards_grow_at_a_date_of_the_entry() -> None:
    """An id time before the date keeps to the old shards for ever; readers query the most."""
    grown = settings(
        shards={"orders-*": [{"count": 2}, {"count": 8, "since": "2027-01-01T00:00:00Z"}]}
    )
    assert grown.shards_at("orders-1", SINCE - timedelta(microseconds=1)) == 2
    assert grown.shards_at("orders-1", SINCE) == 8
    assert grown.shards_max("orders-1") == 8


def test_the_first_pattern_that_matches_counts() -> None:
    """Patterns are tried in their order, case matters, and 1 shard is the default."""
    several = settings(shards={"hot-[0-4]": 2, "hot-*": 4})
    assert [several.shards_max(name) for name in ("hot-3", "hot-7", "Hot-3")] == [2, 4, 1]


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (0, "greater than or equal to 1"),
        (SHARDS_MAX + 1, "less than or equal to 100"),
        ([], "the first step has no `since`"),
        ([{"count": 1, "since": SINCE}], "the first step has no `since`"),
        ([{"count": 1}, {"count": 2}], "every step but the first needs `since`"),
        ([{"count": 4}, {"count": 2, "since": SINCE}], "falls from 4 to 2"),
        ([{"count": 1}, {"count": 2, "since": datetime(2027, 1, 1)}], "timezone"),  # noqa: DTZ001
        (
            [{"count": 1}, {"count": 2, "since": SINCE}, {"count": 3, "since": SINCE}],
            "`since` must ascend",
        ),
    ],
)
def test_a_wrong_shard_rule_is_refused(rule: object, named: str) -> None:
    """Steps start without a date, ascend, never shrink, and carry a zone."""
    with pytest.raises(SettingsError, match=named):
        settings(shards={"a": rule})


def test_reading_only_what_is_new_is_for_one_region_read_consistently() -> None:
    """Where entries may arrive late, or a read may miss one, nothing may be left unread."""
    incremental = {"incremental": True}
    one = settings(regions={"us-east-1": {}}, cache=incremental)
    assert one.cache.incremental
    with pytest.raises(SettingsError, match=r"cache\.incremental is for a table of one region"):
        settings(cache=incremental)
    with pytest.raises(SettingsError, match=r"cache\.incremental needs consistent_reads"):
        one.replace(consistent_reads=False)


@pytest.mark.parametrize(
    ("pipeline", "named"),
    [
        ({"dead_letter_queue": "dead-letters"}, "the URL of an SQS queue"),
        ({"dead_letter_queue": ""}, "the URL of an SQS queue"),
        ({"deletes": "perhaps"}, "refuse"),
    ],
)
def test_a_wrong_place_for_dead_letters_is_refused(pipeline: dict[str, str], named: str) -> None:
    """A queue is named by its URL, and a delete is refused or ignored."""
    with pytest.raises(SettingsError, match=named):
        settings(pipeline=pipeline)


@pytest.mark.parametrize(
    ("given", "followed"),
    [
        ({}, {"settle": 1320, "retry_horizon": 300, "read_deadline": 15, "request_timeout": 5}),
        ({"settle": "1d"}, {"retry_horizon": 300, "write_deadline": 30}),
        ({"settle": 1000}, {"retry_horizon": 36, "write_deadline": 30}),
        ({"settle": 970}, {"retry_horizon": 9, "write_deadline": 9}),
        ({"retry_horizon": "1h"}, {"settle": 4620, "write_deadline": 30}),
        ({"retry_horizon": 60, "clock_skew": 0}, {"settle": 1020, "write_deadline": 30}),
        ({"observation_delay": 4}, {"read_deadline": 3}),
        ({"signature_lifetime": 2, "regions": LOCAL}, {"request_timeout": 2, "settle": 422}),
    ],
)
def test_durations_follow_from_settle_and_observation_delay(
    given: dict[str, Any], followed: dict[str, float]
) -> None:
    """What is not given keeps every relation true and is otherwise as usual."""
    made = settings(**given)
    assert {name: getattr(made, name) for name in followed} == followed


def test_the_lifetime_of_a_signature_is_a_fact_that_nothing_shortens() -> None:
    """AWS decides it: a short settle is refused, not made to fit by assuming a shorter one."""
    with pytest.raises(SettingsError, match=r"settle \(900 s\) must exceed"):
        settings(settle="15m")


@pytest.mark.parametrize(
    ("endpoint", "is_aws"),
    [
        (None, True),
        ("https://dynamodb.us-east-1.amazonaws.com", True),
        ("https://vpce-1a-2b.dynamodb.us-east-1.vpce.AMAZONAWS.com.", True),
        ("https://111122223333.ddb.us-east-1.amazonaws.com:443", True),
        ("https://dynamodb.us-east-1.api.aws", True),
        ("https://dynamodb.cn-north-1.amazonaws.com.cn", True),
        ("http://127.0.0.1:8001", False),
        ("http://amazonaws.com.example.net", False),
    ],
)
def test_a_signature_is_taken_to_live_as_long_as_aws_takes_it_for_valid(
    *, endpoint: str | None, is_aws: bool
) -> None:
    """Less than 15 minutes is refused where a request goes to AWS, in any one of the regions."""
    values = {"regions": {**LOCAL, "us-east-1": {"endpoint": endpoint}}, "signature_lifetime": 899}
    if not is_aws:
        assert settings(**values).signature_lifetime == 899
        return
    with pytest.raises(SettingsError, match=r"signature_lifetime \(899 s\).* for us-east-1,"):
        settings(**values)
    assert settings(**{**values, "signature_lifetime": 900}).settle == 1320


def test_a_settle_that_follows_follows_again() -> None:
    """What was not set is not kept when what it follows from is changed."""
    assert settings().replace(retry_horizon="10m").settle == 1620


def test_the_heartbeat_follows_from_the_lease() -> None:
    """Three heartbeats fit into a lease; a long lease is still kept alive every ten seconds."""
    beats = [settings(compactor={"lease": lease}).compactor.heartbeat for lease in (6, 30, 90)]
    assert beats == [2, 10, 10]


def test_what_was_not_set_follows_again_in_a_changed_group() -> None:
    """A lease that is replaced brings its heartbeat with it; one that was set stays."""
    first = settings(compactor={"fold_min": 3})
    assert first.replace(compactor={"lease": 6}).compactor.heartbeat == 2
    shorter = first.replace(compactor={"lease": 6}).replace(compactor={"lease": 60})
    assert (shorter.compactor.heartbeat, shorter.compactor.fold_min) == (10, 3)
    kept = settings(compactor={"heartbeat": 3}).replace(compactor={"lease": 90})
    assert kept.compactor.heartbeat == 3
