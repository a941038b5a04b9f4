"""Records read once more, for states that do not keep what another form needs of them.

A record completes its state's image only if it is of exactly the state's version: an older one was
corrected since, and a newer one is for the lanes to bring in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

from ledger.pipeline.core.category_sums import CategorySums
from ledger.pipeline.core.records import Delivery, Poison, Record, RecordForm
from ledger.pipeline.core.transitions import State, with_image
from ledger.pipeline.sources.source import Source
from ledger.runtime.tasks import run_all

READS_AT_ONCE = 16
LISTED_MAX = 20
"""States and records named in the result; all are counted."""

Judge = Callable[[str, State], State | None]
"""Returns what a record's state should be, None to leave it unchanged."""
ReadState = Callable[[str, str], Awaitable[State | None]]
"""Reads the state of a record in a region."""


@dataclass(slots=True)
class RereadResult:
    """What a rebuild has done, or would do.

    Of `records` states some were `rewritten`; `lacking` ones do not keep a field that the form
    names, `refused` ones have values that it refuses: those stay unchanged. Of records read once
    more it refuses `dead` ones; `older` and `newer` ones than their states, and `unknown`
    ones without a state, change nothing. `listed` has the first of what was left; `changes` are
    the sums per category.
    """

    records: int = 0
    rewritten: int = 0
    lacking: int = 0
    refused: int = 0
    dead: int = 0
    older: int = 0
    newer: int = 0
    unknown: int = 0
    changes: dict[str, Decimal] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether every state is of the form."""
        return not self.lacking and not self.refused

    def list(self, line: str) -> None:
        """Add a line, if there is room and it is not listed yet."""
        if len(self.listed) < LISTED_MAX and line not in self.listed:
            self.listed.append(line)


class ReadAgain:
    """The records of these sources, for the states that they belong to.

    `is_kept` says whether a state keeps what the form needs.
    """

    def __init__(
        self,
        form: RecordForm,
        regions: Iterable[str],
        read_state: ReadState,
        is_kept: Callable[[State], bool],
        done: RereadResult,
    ) -> None:
        self._form = form
        self._regions = frozenset(regions)
        self._read_state = read_state
        self._is_kept = is_kept
        self._done = done

    async def states(
        self, name: str, source: Source, most: int
    ) -> AsyncIterator[tuple[str, Sequence[tuple[str, State]], Judge]]:
        """Yield the states of a source's records by their region, and what judges them.

        Raises:
            LedgerError: the source cannot be read.
            StoreError: a region does not answer.
        """
        async with aclosing(source.batches("", most=most)) as batches:
            async for batch in batches:
                versions = self._versions(name, batch)
                judge = partial(self._wanted, versions)
                for region in sorted({home for home, _ in versions}):
                    ids = [one for home, one in versions if home == region]
                    jobs = [partial(self._read_state, region, record_id) for record_id in ids]
                    states = await run_all(jobs, at_once=READS_AT_ONCE)
                    found = [
                        self._found(versions[region, one], one, state)
                        for one, state in zip(ids, states, strict=True)
                    ]
                    yield region, [state for state in found if state is not None], judge

    def _versions(
        self, name: str, batch: Sequence[Delivery]
    ) -> Mapping[tuple[str, str], dict[int, Record]]:
        """Return the records of a batch by their home, id and version."""
        versions: dict[tuple[str, str], dict[int, Record]] = {}
        for delivery in batch:
            record = self._form.take(delivery)
            if isinstance(record, Poison) or record.home not in self._regions:
                self._done.dead += 1
                why = record.reason if isinstance(record, Poison) else f"{record.home} is not open"
                self._done.list(f"{name} at {delivery.position.lstrip('0') or '0'}: {why}")
            else:
                versions.setdefault((record.home, record.id), {})[record.version] = record
        return versions

    def _found(
        self, versions: Mapping[int, Record], record_id: str, state: State | None
    ) -> tuple[str, State] | None:
        """Count a record by its relation to its state, and return the state, if there is one."""
        if state is None:
            self._done.unknown += len(versions)
            return None
        self._done.older += sum(version < state.version for version in versions)
        self._done.newer += sum(version > state.version for version in versions)
        return record_id, state

    def _wanted(
        self,
        versions: Mapping[tuple[str, str], Mapping[int, Record]],
        record_id: str,
        state: State,
    ) -> State | None:
        record = versions.get((state.home, record_id), {}).get(state.version)
        if record is None:
            return None
        image = CategorySums(record.value, record.categories, record.counted)
        if image == state.image and self._is_kept(state):
            return None
        return with_image(state, image, record.kept)
