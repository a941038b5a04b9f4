"""An item in a line, as far as it matters to a total: pure."""

from ledger.core import ids, keys
from ledger.core.entry import Item
from ledger.lab.harness.tagged import digits


def told_item(item: Item) -> str:
    """Say what an entry or a net change counts; whatever it looks like."""
    partition, sort_key = item["pk"]["S"], item["sk"]["S"]
    try:
        counted = ", ".join(map(str, sorted(digits(int(item["change"]["N"])))))
        if not sort_key.startswith(keys.NET_PREFIX):
            return f"{partition} {sort_key}: change {counted}"
        named = ", ".join(map(str, ids.unpack_all(item["merged"]["B"]))) or "none"
        version = item["version"]["S"]
    except (KeyError, ValueError):
        return f"{partition} {sort_key}: {item}"
    return f"{partition} {sort_key} version {version}: changes {counted}; merged ids: {named}"
