"""Mutants of the archive, and the code that they put in place of production code."""

from typing import Any
from weakref import WeakKeyDictionary

from compactor.archive_object import ArchiveObject
from compactor.archiver import Archiver
from ledger.core.values import NetChange
from ledger.reads import history
from ledger.reads.collection import read_net
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from proof.simulator.mutant import Mutant
from proof.simulator.scenario import keeps_archive

_put = Archiver.put
_late: WeakKeyDictionary[Archiver, list[ArchiveObject]] = WeakKeyDictionary()


async def put_after(self: Archiver, made: ArchiveObject) -> None:
    """Put an object only when the next one is due, so after the folds that name it."""
    if self._current is made:
        self._current = None
    waiting = _late.setdefault(self, [])
    due, waiting[:] = [archived for archived in waiting if archived is not made], [made]
    for archived in due:
        await _put(self, archived)


async def first_net(
    store: Store, partition: str, *_: LiveSettings, **options: Any
) -> NetChange | None:
    """Return the net that a process saw first of a collection."""
    nets = _first.setdefault(store, {})
    if partition not in nets:
        nets[partition] = await read_net(store, partition, **options)
    return nets[partition]


_first: WeakKeyDictionary[Store, dict[str, NetChange | None]] = WeakKeyDictionary()

ARCHIVE_MUTANTS = (
    Mutant(
        "fold-before-archive",
        "an object is put, and read back, before a fold that names it is sent",
        "a compactor that crashes in between leaves a net whose entries are kept nowhere",
        8,
        ((Archiver, "put", put_after),),
        worlds=keeps_archive,
    ),
    Mutant(
        "net-before-page",
        "history reads a page of the table, then the net",
        "what was merged and deleted in between is in neither",
        24,
        ((history, "read_net", first_net), (history, "read_known_net", first_net)),
        worlds=keeps_archive,
    ),
)
