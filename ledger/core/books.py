"""Books: what transfers move between accounts, and the balances that a net keeps of them.

A transfer is one entry whose `change` is 0 and whose `legs` say which account gets how much of
which asset; the legs of each asset sum to 0. So it is whole wherever it is shown. The net of a book
keeps in one attribute, `accounts`, the balances that its merged transfers came to. They commit,
replicate and are lost together with the net, so the formula of a total holds for each account:

    balance = the net's balance + the leg of every transfer that the net does not name

A balance of 0 is not kept, so the accounts that have something bound the size of a net. An entry
without legs moves nothing between accounts.

Pure: no clock, no randomness, no I/O.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from ledger.core import amounts, keys
from ledger.core.decompression import inflated_text
from ledger.core.errors import (
    AmountOverflow,
    DamagedItem,
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    Unbalanced,
)
from ledger.core.values import Leg, NetChange

Accounts = Mapping[str, Mapping[str, Decimal]]
"""Asset -> account -> balance, without balances of 0, in code point order."""
LEGS_MAX = 100
ACCOUNT_BYTES_MAX = 255
ASSET_CHARACTERS_MAX = 32
ACCOUNTS_BYTES_MAX = 200 * 1024
"""Bytes of `accounts` of one net; a fold that would come to more takes fewer transfers."""
ACCOUNTS_BYTES_OPEN = 150 * 1024
"""Bytes of `accounts` from which on no account is opened: the rest is room for those under way."""
ACCOUNTS_BYTES_A_FOLD = 256
"""Bytes of a net's accounts for each of which a fold takes one transfer at least: each fold writes
them all again."""
TEXT_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that `accounts` may unpack to: what is longer was not written here."""
UNLIKE_SHOWN_MAX = 10
"""Accounts that differ and are named; the rest are only counted."""
_LEVEL = 6
_NAMES = json.JSONEncoder(ensure_ascii=False)
_NOTHING = Decimal(0)


class AccountSums:
    """Balances that are being added up."""

    __slots__ = ("_by_asset",)

    def __init__(self) -> None:
        self._by_asset: dict[str, dict[str, Decimal]] = {}

    def add(self, accounts: Accounts) -> None:
        """Add balances."""
        for asset, balances in accounts.items():
            self._add(asset, balances.items())

    def move(self, legs: Iterable[Leg]) -> None:
        """Add what a transfer moves."""
        for account, asset, amount in legs:
            self._add(asset, ((account, amount),))

    def _add(self, asset: str, amounts_of: Iterable[tuple[str, Decimal]]) -> None:
        there = self._by_asset.setdefault(asset, {})
        for account, amount in amounts_of:
            there[account] = amounts.EXACT.add(there.get(account, _NOTHING), amount)

    def accounts(self) -> Accounts:
        """Return what they came to.

        Raises:
            AmountOverflow: a balance does not fit in 38 digits.
        """
        for asset, balances in self._by_asset.items():
            for account, balance in balances.items():
                try:
                    amounts.within_range(balance)
                except AmountOverflow as error:
                    raise AmountOverflow(
                        f"balance of {account!r} in {asset}: {error}; its history shows the"
                        " transfer that is wrong: reverse it"
                    ) from None
        return self.running()

    def running(self) -> Accounts:
        """Return what they came to so far, without a check of its range."""
        found = {}
        for asset, balances in sorted(self._by_asset.items()):
            kept = {account: balance for account, balance in sorted(balances.items()) if balance}
            if kept:
                found[asset] = kept
        return found


def checked_legs(legs: Iterable[Any]) -> tuple[Leg, ...]:
    """Return the legs of a new transfer, in the order of assets, then accounts.

    Raises:
        Unbalanced: those of an asset do not sum to 0.
        InvalidEntry: they are not 2 to 100 of account, asset and amount; an amount is 0, an account
            is named twice in an asset, or a name breaks a rule.
        InvalidAmount, AmountOverflow: an amount breaks a rule.
    """
    try:
        given = [(account, asset, amount) for account, asset, amount in islice(legs, LEGS_MAX + 1)]
    except (TypeError, ValueError):
        raise InvalidEntry(
            f"legs must be a list of (account, asset, amount), got {legs!r:.200}"
        ) from None
    if not 1 < len(given) <= LEGS_MAX:
        more = "more" if len(given) > LEGS_MAX else len(given)
        raise InvalidEntry(f"a transfer must have 2 to {LEGS_MAX} legs, got {more}")
    found = [_checked_leg(*each) for each in given]
    if twice := _named_twice(found):
        raise InvalidEntry(
            f"a transfer must name an account once in an asset, got {twice[0]!r} in {twice[1]}"
            " twice: give the sum"
        )
    for asset, difference in differences(found).items():
        raise Unbalanced(
            f"the legs of a transfer must sum to 0 in each asset, got"
            f" {amounts.to_text(difference)} in {asset}"
        )
    return ordered(found)


def _checked_leg(account: object, asset: object, amount: object) -> Leg:
    name = checked_account(account)
    if not isinstance(asset, str) or not 0 < len(asset) <= ASSET_CHARACTERS_MAX:
        raise InvalidEntry(
            f"an asset must be a text of 1 to {ASSET_CHARACTERS_MAX} characters, got {asset!r:.100}"
        )
    if not asset.isascii() or not asset.isprintable() or " " in asset:
        raise InvalidEntry(f"an asset must be printable ASCII without a space, got {asset!r}")
    exact = amounts.addend(amount)
    if not exact:
        raise InvalidEntry(f"a leg must move something, got 0 of {asset} for account {name!r}")
    return Leg(name, asset, exact)


def checked_account(account: object) -> str:
    """Return the name of an account, as one to be opened.

    Raises:
        InvalidEntry: it is not 1 to 255 bytes of UTF-8 in form C without invisible characters, or
            begins with `~`.
    """
    is_text = isinstance(account, str)
    if is_text and not 0 < len(account.encode(errors="replace")) <= ACCOUNT_BYTES_MAX:  # type: ignore[attr-defined]
        raise InvalidEntry(
            f"an account must have 1 to {ACCOUNT_BYTES_MAX} bytes of UTF-8, got {account!r:.100}"
        )
    try:
        return keys.checked_new_counter(account, "an account")
    except InvalidCounter as error:
        raise InvalidEntry(str(error)) from None


def _named_twice(legs: Iterable[Leg]) -> tuple[str, str] | None:
    seen = set[tuple[str, str]]()
    for account, asset, _ in legs:
        if (account, asset) in seen:
            return account, asset
        seen.add((account, asset))
    return None


def ordered(legs: Iterable[Leg]) -> tuple[Leg, ...]:
    """Return legs in the one order in which they are kept."""
    return tuple(sorted(legs, key=lambda leg: (leg.asset, leg.account)))


def differences(legs: Iterable[Leg]) -> dict[str, Decimal]:
    """Return by how much the legs of each asset miss a sum of 0, for those that do."""
    sums: dict[str, Decimal] = {}
    for _, asset, amount in legs:
        sums[asset] = amounts.EXACT.add(sums.get(asset, _NOTHING), amount)
    return {asset: each for asset, each in sums.items() if each}


def opposite(legs: Iterable[Leg]) -> tuple[Leg, ...]:
    """Return what takes a transfer back."""
    return tuple(Leg(account, asset, amount.copy_negate()) for account, asset, amount in legs)


def legs_of(accounts: Accounts) -> tuple[Leg, ...]:
    """Return balances as the legs that move as much."""
    return tuple(
        Leg(account, asset, balance)
        for asset, balances in accounts.items()
        for account, balance in balances.items()
    )


def before(accounts: Accounts, legs: Iterable[Iterable[Leg]]) -> Accounts:
    """Return the balances from which transfers came to these.

    Raises:
        AmountOverflow: a balance does not fit in 38 digits.
    """
    balances = AccountSums()
    balances.add(accounts)
    for each in legs:
        balances.move(opposite(each))
    return balances.accounts()


def unlike(shown: Mapping[str, Accounts]) -> str:
    """Return in which accounts balances differ, and what each place shows; empty if in none."""
    names = {
        (asset, account)
        for accounts in shown.values()
        for asset, balances in accounts.items()
        for account in balances
    }
    found = list[str]()
    for asset, account in sorted(names):
        there = {
            place: accounts.get(asset, {}).get(account, _NOTHING)
            for place, accounts in shown.items()
        }
        if len(set(there.values())) > 1:
            said = ", ".join(f"{place} {amounts.to_text(one)}" for place, one in there.items())
            found.append(f"{account!r} in {asset}: {said}")
    more = len(found) - UNLIKE_SHOWN_MAX
    return "; ".join(found[:UNLIKE_SHOWN_MAX]) + (f"; {more:,} more" if more > 0 else "")


def unbalanced(accounts: Accounts) -> str:
    """Return the assets whose balances do not sum to 0, and what they sum to; empty if none."""
    sums = {asset: amounts.total_wide(balances.values()) for asset, balances in accounts.items()}
    return ", ".join(f"{asset} {amounts.to_text(one)}" for asset, one in sums.items() if one)


def accounts_of(net: NetChange | None) -> Accounts:
    """Return the balances that a net keeps of its transfers; none if it is no book's.

    Raises:
        DamagedItem: they cannot be read.
    """
    if net is None or net.accounts is None:
        return {}
    try:
        return unpacked(net.accounts)
    except ValueError as error:
        raise DamagedItem(f"accounts of net {net.version} are damaged: {error}") from None


def fitting(
    net: NetChange | None,
    changes: Sequence[tuple[str, Decimal]],
    legs: Mapping[str, Sequence[Leg]],
    is_enough: Callable[[Sequence[str]], bool],
) -> tuple[tuple[str, ...], bytes | None]:
    """Return those of these entries that a net has room for, and its accounts with theirs.

    All of them, but for those with which a sum would not fit in 38 digits: such an entry waits for
    others, as its reversal, and holds up none. Where the accounts of a book would not fit, of those
    that open an account the older half, and so on; if there is room for none, half of the rest. The
    accounts are None if nothing was ever moved.

    Raises:
        AmountOverflow: a sum does not fit, and without it there are not enough entries.
        DamagedItem: the accounts of the net cannot be read.
    """
    before = _NOTHING if net is None else net.change
    try:
        amounts.total((before, *(change for _, change in changes)))
        return _with_room(net, tuple(key for key, _ in changes), legs)
    except AmountOverflow:
        fit = _addable(net, changes, legs)
        if not is_enough(fit):
            raise
        return _with_room(net, fit, legs)


def _with_room(
    net: NetChange | None, candidates: tuple[str, ...], legs: Mapping[str, Sequence[Leg]]
) -> tuple[tuple[str, ...], bytes | None]:
    """Return those of these entries whose accounts fit in a net, and its accounts then."""
    before = None if net is None else net.accounts
    if before is None and not any(key in legs for key in candidates):
        return candidates, None
    kept = accounts_of(net)
    opening_none, opening = _by_opening(candidates, legs, kept)
    while taken := (*opening_none, *opening):
        balances = AccountSums()
        balances.add(kept)
        for key in taken:
            balances.move(legs.get(key, ()))
        accounts = packed(balances.accounts())
        if len(accounts) <= ACCOUNTS_BYTES_MAX:
            return tuple(sorted(taken)), accounts
        if opening:
            opening = opening[: len(opening) // 2]
        else:
            opening_none = opening_none[: len(opening_none) // 2]
    return (), before


def _addable(
    net: NetChange | None,
    changes: Iterable[tuple[str, Decimal]],
    legs: Mapping[str, Sequence[Leg]],
) -> tuple[str, ...]:
    """Return the entries with which, one after the other, each sum fits in 38 digits."""
    own = "", ""
    sums = {
        (asset, account): balance
        for asset, balances in accounts_of(net).items()
        for account, balance in balances.items()
    }
    sums[own] = _NOTHING if net is None else net.change
    found = list[str]()
    for key, change in changes:
        moved = {(leg.asset, leg.account): leg.amount for leg in legs.get(key, ())} | {own: change}
        try:
            sums |= {
                place: amounts.total((sums.get(place, _NOTHING), amount))
                for place, amount in moved.items()
            }
        except AmountOverflow:
            continue
        found.append(key)
    return tuple(found)


def _by_opening(
    sort_keys: Iterable[str], legs: Mapping[str, Sequence[Leg]], accounts: Accounts
) -> tuple[list[str], list[str]]:
    """Return the entries that name no account beside these, and the others."""
    found: tuple[list[str], list[str]] = [], []
    for key in sort_keys:
        known = all(leg.account in accounts.get(leg.asset, ()) for leg in legs.get(key, ()))
        found[not known].append(key)
    return found


def legs_attribute(legs: Iterable[Leg]) -> Mapping[str, Any]:
    """Return the attribute `legs` of a transfer's item: asset -> account -> amount."""
    by_asset: dict[str, dict[str, Any]] = {}
    for account, asset, amount in legs:
        by_asset.setdefault(asset, {})[account] = {"N": amounts.to_text(amount)}
    return {"M": {asset: {"M": by_account} for asset, by_account in by_asset.items()}}


def legs_in(attribute: Mapping[str, Any]) -> tuple[Leg, ...]:
    """Return the legs that an item's attribute holds.

    Raises:
        ValueError: it is of another form, one moves nothing, or an asset's do not sum to 0.
    """
    try:
        legs = [
            Leg(account, asset, amounts.parse(amount["N"]))
            for asset, by_account in attribute["M"].items()
            for account, amount in by_account["M"].items()
        ]
    except (KeyError, TypeError, AttributeError, InvalidInput) as error:
        raise ValueError(f"legs cannot be read: {error!r}") from None
    return balanced(legs)


def balanced(legs: Sequence[Leg]) -> tuple[Leg, ...]:
    """Return the legs of a transfer as it was read, in their order.

    Raises:
        ValueError: one moves nothing, or an asset's do not sum to 0.
    """
    if len(legs) < 2 or not all(leg.amount for leg in legs):  # noqa: PLR2004 (from and to)
        raise ValueError(f"a transfer moves something between two accounts, got {len(legs)} legs")
    if wrong := differences(legs):
        asset, difference = next(iter(wrong.items()))
        raise ValueError(f"legs must sum to 0, got {amounts.to_text(difference)} in {asset}")
    return ordered(legs)


def packed(accounts: Accounts) -> bytes:
    """Return balances as the bytes that a net keeps of them: zlib of JSON, in code point order."""
    return compressed(json_of(accounts))


def json_of(accounts: Accounts) -> str:
    """Return amounts by asset and account as JSON, in their order."""
    parts = (
        f"{_NAMES.encode(asset)}:{{"
        + ",".join(
            f"{_NAMES.encode(account)}:{amounts.to_text(amount)}"
            for account, amount in by_account.items()
        )
        + "}"
        for asset, by_account in accounts.items()
    )
    return "{" + ",".join(parts) + "}"


def compressed(text: str) -> bytes:
    """Return the bytes that an item has of a text, which `inflated_text` reads."""
    return zlib.compress(text.encode(), _LEVEL)


def unpacked(data: bytes) -> Accounts:
    """Return the balances in the bytes of a net.

    Raises:
        ValueError: they are not in the form of `packed`.
    """
    text = inflated_text(data, bytes_max=TEXT_BYTES_MAX)
    try:
        found = json.loads(text, parse_float=amounts.parse, parse_int=amounts.parse)
        balances = [each for by_account in found.values() for each in by_account.values()]
    except (AttributeError, TypeError, InvalidAmount, RecursionError) as error:
        raise ValueError(f"accounts cannot be read: {error!r}") from None
    if not all(isinstance(balance, Decimal) for balance in balances):
        raise ValueError("a balance must be a number")
    return found  # type: ignore[no-any-return]
