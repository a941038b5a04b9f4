"""Mutants of signed nets, and the code that they put in place of production code."""

from ledger.administration import net_signer
from ledger.core.entry import FAULT, Item, net_of
from ledger.core.signatures import SIGNATURE, NetKeys
from ledger.core.values import NetChange
from ledger.store.port import Store
from ledger.store.wrappers.net_signatures import NetSigningStore
from proof.simulator import leaders
from proof.simulator.forger import is_signed, keys_of
from proof.simulator.mutant import Mutant

_fault, _net_of = NetKeys.fault, net_of


class TrustingStore(NetSigningStore):
    """A store that signs what it writes, and takes what it reads as it is."""

    def _checked(self, item: Item, partition: str) -> Item:
        del partition
        return item


def trusting(store: Store, seed: int, process: str) -> Store:
    """Return a store of a process that signs without a look at what others wrote."""
    keys = keys_of(seed, process)
    return store if keys is None else TrustingStore(store, keys)


def read_unsigned(self: NetKeys, item: Item) -> str | None:
    """Trust what is not signed."""
    return _fault(self, item) if SIGNATURE in item else None


def read_any(self: NetKeys, item: Item) -> str | None:
    """Trust whatever has a signature, right or wrong."""
    return None if SIGNATURE in item else _fault(self, item)


def of_anyone(item: Item) -> NetChange:
    """Take a net without a signature for right when it is about to be signed."""
    is_unsigned = SIGNATURE not in item
    return _net_of({name: item[name] for name in item if not is_unsigned or name != FAULT})


FORGER_MUTANTS = (
    Mutant(
        "net-unsigned",
        "where signatures are required a net without one is refused",
        "who may write entries, and has no key, writes totals",
        12,
        ((NetKeys, "fault", read_unsigned),),
        worlds=is_signed,
    ),
    Mutant(
        "net-signed-by-anyone",
        "a net whose signature is wrong is refused",
        "the same",
        12,
        ((NetKeys, "fault", read_any),),
        worlds=is_signed,
    ),
    Mutant(
        "net-signed-over",
        "the compactor folds on no net that it would not read",
        "it signs what somebody else has made, and every reader counts it",
        24,
        ((leaders, "signing", trusting),),
        worlds=is_signed,
    ),
    Mutant(
        "net-signed-anew",
        "where signatures are required, `ledger table sign` signs what a former key signed alone",
        "the same, at the next change of keys",
        24,
        ((net_signer, "net_of", of_anyone),),
        worlds=is_signed,
    ),
)
