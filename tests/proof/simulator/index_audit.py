"""What must hold of the index, judged by a decoding of its own.

- Whatever an index item says, in any region, is what some net of its collection said before: the
  index is never ahead of the nets, and no state is made up.
- Where one home keeps it all along, an item never goes back to an older state.
- At rest, after a whole search, each collection's item of the highest generation says what its net
  says, in every region, and each counter without a net is listed. Items of former generations may
  be left where a home was lost: what it put with a stamp ahead outlives its deletion there.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ledger.core.entry import Item

PREFIX = "~index-"
_SEPARATOR = "\x1f"
_State = tuple[int, int, int]
_NAMED: _State = (0, 0, 0)


class IndexAudit:
    """The nets that a world has had, and checks of its index against them."""

    def __init__(
        self, patterns: tuple[str, ...] = (), *, has_one_home: bool = True, loses: bool = False
    ) -> None:
        self._patterns = patterns
        self._has_one_home = has_one_home
        self._loses = loses
        self._had: dict[str, set[_State]] = {}
        self._latest: dict[tuple[str, str], _State] = {}

    @property
    def is_kept(self) -> bool:
        """Whether the world has an index."""
        return bool(self._patterns)

    def arrived(self, region: str, item: Item) -> str:
        """Note a net, or return what is wrong with an index item that reached a region."""
        if not self._patterns:
            return ""
        partition = item["pk"]["S"]
        if "merged" in item:
            self._had.setdefault(partition, set()).add(_net_state(item))
        elif partition.startswith(PREFIX):
            collection, state = _collection(item), _state(item)
            if state != _NAMED and state not in self._had.get(collection, ()):
                return f"the index in {region} says {state} of {collection}, as no net did"
        return ""

    def changed(self, region: str, partition: str, items: Mapping[str, Item]) -> str:
        """Return what is wrong with an index partition that changed."""
        if not self._has_one_home or not partition.startswith(PREFIX):
            return ""
        for item in items.values():
            collection, state = _collection(item), _state(item)
            before = self._latest.get((region, collection), _NAMED)
            if state[:2] < before[:2]:
                return f"the index in {region} went from {before} back to {state} of {collection}"
            self._latest[region, collection] = state
        return ""

    def wrong_at_rest(
        self,
        region: str,
        collection: str,
        counter: str,
        partitions: Mapping[str, Mapping[str, Item]],
    ) -> str:
        """Return what is wrong with the index of a collection; empty if nothing is."""
        if not any(fnmatchcase(counter, pattern) for pattern in self._patterns):
            return ""
        shown = sorted(
            (_generation(item), _state(item))
            for name, items in partitions.items()
            if name.startswith(PREFIX)
            for item in items.values()
            if _collection(item) == collection
        )
        items = partitions.get(collection, {})
        nets = {sort_key: item for sort_key, item in items.items() if "merged" in item}
        right = _net_state(nets[max(nets)]) if nets else _NAMED
        if shown and shown[-1][1] == right and (self._loses or len(shown) == 1):
            return ""
        return f"the index in {region} says {shown} of {collection}, its net {right}"


def _collection(item: Item) -> str:
    counter, shard, _ = [*item["sk"]["S"].split(_SEPARATOR), "0", "1"][:3]
    return f"~{int(shard)}~{counter}" if int(shard) else counter


def _generation(item: Item) -> int:
    return int([*item["sk"]["S"].split(_SEPARATOR), "0", "1"][2])


def _state(item: Item) -> _State:
    return int(item["generation"]["N"]), int(item["count"]["N"]), int(item["value"]["N"])


def _net_state(item: Item) -> _State:
    return int(item["sk"]["S"][5:]), int(item["count"]["N"]), int(item["change"]["N"])
