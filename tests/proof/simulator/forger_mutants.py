"""Mutants of signed nets, and the code that they put in place of production code."""

from ledger.core.entry import Item
from ledger.store.port import Store
from ledger.store.wrappers.net_signatures import NetSigningStore
from proof.simulator import leaders
from proof.simulator.edit import Edit
from proof.simulator.forger import is_signed, keys_of
from proof.simulator.mutant import Mutant


class TrustingStore(NetSigningStore):
    """A store that signs what it writes, and takes what it reads as it is."""

    def _checked(self, item: Item, partition: str) -> Item:
        del partition
        return item


def trusting(store: Store, seed: int, process: str) -> Store:
    """Return a store of a process that signs without a look at what others wrote."""
    keys = keys_of(seed, process)
    return store if keys is None else TrustingStore(store, keys)


FORGER_MUTANTS = (
    Mutant(
        "net-unsigned",
        "where signatures are required a net without one is refused",
        "who may write entries, and has no key, writes totals",
        12,
        (
            Edit(
                "ledger.core.signatures:NetKeys.fault",
                '"it has no signature" if self.required else None',
                "None",
            ),
        ),
        worlds=is_signed,
    ),
    Mutant(
        "net-signed-by-anyone",
        "a net whose signature is wrong is refused",
        "the same",
        12,
        (
            Edit(
                "ledger.core.signatures:NetKeys.fault",
                "        name = signer_of(item)",
                "        return None\n        name = signer_of(item)",
            ),
        ),
        worlds=is_signed,
    ),
    Mutant(
        "net-signed-over",
        "the compactor folds on no net that it would not read",
        "it signs what somebody else has made, and every reader counts it",
        24,
        ((leaders, "signing", trusting),),
        first=2,
        worlds=is_signed,
    ),
    Mutant(
        "net-signed-anew",
        "where signatures are required, `ledger table sign` signs what a former key signed alone",
        "the same, at the next change of keys",
        24,
        (
            Edit(
                "ledger.administration.net_signer:NetSigner._net",
                "net_of(item), key_of",
                "net_of(item if SIGNATURE in item else bare), key_of",
            ),
        ),
        first=4,
        worlds=is_signed,
    ),
)
