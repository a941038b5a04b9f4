"""Signatures of net changes: made by who has a key, refused where anything else was written."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import net

from ledger.core.entry import Item, net_of
from ledger.core.errors import DamagedItem, SettingsError
from ledger.core.ids import EntryId
from ledger.core.signatures import SIGNATURE, SIGNED, TAG_BYTES, NetKeys

ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
KEYS = NetKeys.parse(f"# the first signs\none {ONE}\n\ntwo  {TWO} \n")
REQUIRED = NetKeys.parse(f"one {ONE}", required=True)
NET = net("c", -250, [EntryId(7, 8), EntryId(9, 10)], count=3)


def test_a_signed_net_is_the_same_net() -> None:
    """It reads as before, passes every holder of the key, and is 28 bytes longer."""
    signed = KEYS.signed(NET)
    assert net_of(signed) == net_of(NET)
    assert [keys.fault(signed) for keys in (KEYS, REQUIRED)] == [None, None]
    assert signed[SIGNATURE]["B"].endswith(b"one")
    assert len(SIGNATURE) + len(signed[SIGNATURE]["B"]) == 9 + TAG_BYTES + 3
    assert REQUIRED.checked(signed, "c") is signed


def test_the_signed_attributes_are_all_that_a_net_has() -> None:
    """Nothing of a net can be changed beside its signature."""
    assert set(NET) | {"periods", "archive", "accounts"} == set(SIGNED)


@pytest.mark.parametrize("name", sorted({*NET} | {"periods", "archive", "accounts"}))
def test_no_attribute_can_be_changed_added_or_taken(name: str) -> None:
    """Each is covered, by its name and kind too; a digest that fits helps nothing."""
    signed = dict(KEYS.signed({**NET, "archive": {"B": b"head"}}))
    ((kind, content),) = signed.get(name, {"S": "x"}).items()
    other: Any = content + (b"x" if kind == "B" else "1")
    for changed in ({**signed, name: {kind: other}}, {k: signed[k] for k in signed if k != name}):
        if changed == signed or "pk" not in changed or "sk" not in changed:
            continue
        assert "is wrong" in str(KEYS.fault(changed))


def test_a_net_of_another_counter_is_refused() -> None:
    """A right signature is of one net, under one key."""
    moved = {**KEYS.signed(NET), "pk": {"S": "d"}}
    assert "is wrong" in str(KEYS.fault(moved))
    read = {name: value for name, value in moved.items() if name != "pk"}
    with pytest.raises(DamagedItem, match=r"item '~net#0001' of counter 'd' is damaged: its sign"):
        net_of({**KEYS.checked(read, "d"), "pk": {"S": "d"}})
    assert KEYS.checked({**read}, "c") == read


def test_a_number_in_another_notation_is_the_same() -> None:
    """DynamoDB gives numbers in its own."""
    signed = KEYS.signed({**NET, "change": {"N": "2.50"}})
    assert KEYS.fault({**signed, "change": {"N": "2.5"}}) is None


def test_an_unsigned_net_is_refused_where_signatures_are_required() -> None:
    """And read on where they are not, so that they can be begun with."""
    assert KEYS.fault(NET) is None
    assert REQUIRED.fault(NET) == "it has no signature"
    with pytest.raises(DamagedItem, match="it has no signature"):
        net_of(REQUIRED.checked(NET, "c"))


@given(st.binary(max_size=40))
def test_no_other_bytes_are_a_signature(data: bytes) -> None:
    """Short, empty, by a name that is none: refused, without another error."""
    assert KEYS.fault({**NET, SIGNATURE: {"B": data}}) is not None


@pytest.mark.parametrize("value", [{"S": "one"}, {"N": "1"}, {}])
def test_a_signature_of_another_kind_is_none(value: dict[str, str]) -> None:
    """As whatever somebody else writes there."""
    assert "does not have" in str(KEYS.fault({**NET, SIGNATURE: value}))


def test_keys_are_changed_one_after_the_other() -> None:
    """All verify, the first signs; what a key signed that is gone is refused by its name."""
    both = NetKeys.parse(f"two {TWO}\none {ONE}")
    signed = REQUIRED.signed(NET)
    assert both.fault(signed) is None
    assert (both.is_signed(signed), both.is_signed(both.signed(NET))) == (False, True)
    after = NetKeys.parse(f"two {TWO}")
    assert "a key that the key file does not have: 'one'" in str(after.fault(signed))
    again = NetKeys.parse(f"one {TWO}")
    assert "by key 'one' is wrong" in str(again.fault(signed))


@pytest.mark.parametrize(
    "text",
    [
        *("", "# none", "one", f"one {ONE[:20]}", "one !!!!", f"{ONE}", f"o/ne {ONE}"),
        *(f"{'n' * 17} {ONE}", f"one {ONE}\none {TWO}", "\n".join(f"k{n} {ONE}" for n in range(9))),
    ],
)
def test_a_file_that_is_none_of_keys_is_refused_without_a_word_of_it(text: str) -> None:
    """No message and no representation shows a secret."""
    with pytest.raises(SettingsError) as caught:
        NetKeys.parse(text)
    assert ONE not in str(caught.value)
    assert ONE[:20] not in str(caught.value)


def test_a_secret_is_in_no_text() -> None:
    """Neither in the keys' representation nor in that of one."""
    for text in (repr(KEYS), str(KEYS.keys[0])):
        assert "secret" not in text
        assert str(bytes([1]) * 32) not in text


def some_nets() -> list[Item]:
    """Return nets whose attributes run into each other if they are only put one after another."""
    return [
        {**NET, "until": {"S": "ab"}, "home": {"S": "c"}},
        {**NET, "until": {"S": "a"}, "home": {"S": "bc"}},
        {**NET, "periods": {"S": "x"}},
        {**NET, "archive": {"B": b"x"}},
        {**NET, "accounts": {"B": b"x"}},
    ]


def test_no_two_nets_have_one_signature() -> None:
    """Each attribute is signed with its name, kind and length."""
    assert len({KEYS.signed(item)[SIGNATURE]["B"] for item in some_nets()}) == 5


def test_the_length_of_each_attribute_is_signed() -> None:
    """As the module says it, so that other releases and programs find the same signature."""
    whole = {**NET, "periods": {"S": "größe"}, "archive": {"B": b"x" * 10}}
    whole["accounts"] = {"B": b"y" * 300}
    message = b""
    for name in SIGNED:
        ((kind, content),) = whole[name].items()
        data = content if kind == "B" else content.encode()
        message += f"{name}\0{kind}\0{len(data)}\0".encode() + data
    tag = hmac.new(bytes([1]) * 32, message, hashlib.sha256).digest()[:TAG_BYTES]
    assert KEYS.signed(whole)[SIGNATURE] == {"B": tag + b"one"}


def test_a_net_whose_signature_is_wrong_is_not_signed() -> None:
    """The name of the first key alone does not make it so."""
    signed = KEYS.signed(NET)
    assert KEYS.is_signed(signed)
    assert not KEYS.is_signed({**signed, "change": {"N": "1"}})


def test_a_secret_has_as_many_bytes_as_the_rule_says() -> None:
    """One fewer is refused."""
    least, less = (base64.b64encode(bytes(length)).decode() for length in (32, 31))
    assert NetKeys.parse(f"one {least}").keys
    with pytest.raises(SettingsError):
        NetKeys.parse(f"one {less}")
