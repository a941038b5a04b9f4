"""Signing the net changes of a table: those from before it had keys, and those of a former key.

Merging signs each net that it writes; an idle counter would keep an unsigned one for good. So each
is put again unchanged, signed, through home and on condition that it is still that one: in every
region both forms are the same net, whichever arrives. A net that has a wrong signature, cannot be
read or is of no generation of the contract is reported and left. So is one without a signature once
that is required: by then all had one, and who has no key wrote this one.

Signing vouches for a net: verify the table first, if not everyone who may write it was trusted.
"""

from dataclasses import dataclass, field

from ledger.contract.view import check_home
from ledger.core.entry import FAULT, Item, key_of, net_of
from ledger.core.errors import DamagedItem, StoreError
from ledger.core.signatures import SIGNATURE, NetKeys, is_net
from ledger.reads.collection import check_generation
from ledger.runtime.clock import Clock
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.conditions import AllOf, Equals
from ledger.store.port import Store
from ledger.store.reads import Scan
from ledger.store.writes import Applied, Put, Rejected

FAULTS_MAX = 100
"""The most untrusted nets that are named."""


@dataclass(slots=True)
class NetSigning:
    """The result for the net changes of a table.

    `there` had a signature of the first key, `signed` got one, `left` still lack one, `changed`
    were rewritten meanwhile; `faults` names some of the `faulty`.
    """

    there: int = 0
    signed: int = 0
    left: int = 0
    changed: int = 0
    faulty: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether each net is signed by the first key, as far as the scan saw."""
        return not (self.left or self.faulty)


@dataclass(frozen=True, slots=True)
class NetSigner:
    """Signs the nets that home shows; with `dry_run` it only counts them.

    `home` is a store that signs what it writes.
    """

    home: Store
    keys: NetKeys
    settings: LiveSettings
    clock: Clock
    dry_run: bool = False

    async def run(self) -> NetSigning:
        """Scan the table, and sign the nets that need it.

        Raises:
            HomeMoving, InvalidInput: the store is not the home's.
            ContractStale, StoreError: DynamoDB could not do it; run it again.
        """
        done, scan = NetSigning(), Scan()
        while True:
            await self.settings.renew()
            check_home(self.home, self.settings.current, what="net changes are signed")
            with signed_within(self.settings.validity, self.clock):
                page = await self.home.scan(scan)
                for item in filter(is_net, page.items):
                    await self._net(item, done)
            if page.after is None:
                return done
            scan = scan.next(page)

    async def _net(self, item: Item, done: NetSigning) -> None:
        bare = {name: item[name] for name in item if name not in {FAULT, SIGNATURE}}
        try:
            check_generation(
                net_of(item), key_of(item)[0], self.home.region, self.settings.current.terms
            )
        except DamagedItem as error:
            done.faulty += 1
            if len(done.faults) < FAULTS_MAX:
                done.faults.append(str(error))
            return
        if self.keys.is_signed(item):
            done.there += 1
        elif self.dry_run:
            done.left += 1
        else:
            await self._sign(bare, done)

    async def _sign(self, bare: Item, done: NetSigning) -> None:
        still = AllOf(tuple(Equals(name, bare[name]) for name in ("version", "digest")))
        try:
            outcome = await self.home.write(Put(bare, still))
        except StoreError:
            done.left += 1
            raise
        if isinstance(outcome, Applied):
            done.signed += 1
        elif isinstance(outcome, Rejected):
            done.changed += 1
        else:
            done.left += 1
