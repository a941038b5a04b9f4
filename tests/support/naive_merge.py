"""The merge as it is usually described, by the name that tests know it by: the negative twin."""

from ledger.bench.usual_merge import is_net, merge_every, merge_once

__all__ = ["is_net", "merge_every", "merge_once"]
