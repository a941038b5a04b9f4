"""The way from a program to a region's endpoint, which a test can cut."""

from collections.abc import Awaitable, Callable

from ledger.core.errors import Unreachable
from ledger.store.port import Store
from ledger.store.wrappers.forwarding import Answer, ForwardingStore, Operation


class CutStore(ForwardingStore):
    """Forwards requests; while `is_cut` each raises `Unreachable`, and nothing arrives."""

    def __init__(self, inner: Store, is_cut: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._is_cut = is_cut

    async def _carry(
        self, operation: Operation, request: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        if self._is_cut():
            raise Unreachable(f"{self.region} cannot be reached: a test cut the way to it")
        return await super()._carry(operation, request)
