"""What a pipeline keeps in one place: its lanes, its forms, and whether it is being audited.

One partition per pipeline, `~pipeline` or `~pipeline.NAME`. Entries of lanes and regions are
written by their own region alone:

- `lane#` + lane: the lane was opened once;
- `form#` + fingerprint: `parts` S, the JSON of what decides a record's result;
- `home`: `region` S, which keeps the states where no pattern says it;
- `region#` + region: `task` S, the audit, mend or rebuild that is under way there, `audit` N, the
  audit's number, `last` N, that of the last one, `required` S, the fingerprint of the form under
  which alone lanes may be opened while a rebuild runs; `states` S and `before` S, where the states
  lie, and where others may still be (`ledger.pipeline.core.state_places`); `forgotten` N, seconds
  since 1970: records before that time are refused; `forgetting` N, while that is under way;
  `taking`, while a reset takes records out of the totals;
- `forgotten#` + region + `#` + category: `value` N, the sum of the images that were forgotten in
  that region; `forgotten#` + region: `records` N, how many;
- `difference#` + category: `change` N, by which the last audit found its total to differ from what
  the states say; at the table's home.

Pure: no clock, no randomness, no I/O.
"""

import json
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, Key, damaged
from ledger.pipeline.core.form_fingerprints import Parts, canonical
from ledger.pipeline.core.items import PIPELINE_PREFIX

LANE_PREFIX, LANE_LAST = "lane#", "lane$"
FORM_PREFIX, FORM_LAST = "form#", "form$"
REGION_PREFIX = "region#"
FORGOTTEN_PREFIX, FORGOTTEN_LAST = "forgotten#", "forgotten$"
HOME_SORT_KEY = "home"
DIFFERENCE_PREFIX, DIFFERENCE_LAST = "difference#", "difference$"


def registry_partition(pipeline: str = "") -> str:
    """Return the partition of a pipeline's registry."""
    return f"{PIPELINE_PREFIX}.{pipeline}" if pipeline else PIPELINE_PREFIX


def lane_entry(lane: str, pipeline: str = "") -> Item:
    """Return the entry of a lane."""
    return {"pk": {"S": registry_partition(pipeline)}, "sk": {"S": f"{LANE_PREFIX}{lane}"}}


def region_key(region: str, pipeline: str = "") -> Key:
    """Return the key of what is under way in a region."""
    return registry_partition(pipeline), f"{REGION_PREFIX}{region}"


def audit_of(item: Item | None) -> int:
    """Return the number of the audit under way in a region; 0 for none.

    Raises:
        DamagedItem: it is not a number.
    """
    try:
        return int((item or {}).get("audit", {"N": "0"})["N"])
    except (KeyError, TypeError, ValueError):
        raise damaged(item or {}, "audit must be a number") from None


def forgotten_of(item: Item | None, name: str = "forgotten") -> int:
    """Return the time, in seconds since 1970, before which records are refused; 0 for none.

    Raises:
        DamagedItem: it is not a number.
    """
    return audit_of({"audit": item[name]}) if item and name in item else 0


def forgotten_key(region: str, category: str = "", pipeline: str = "") -> Key:
    """Return the key of what was forgotten in a region, of a category; without one, the number."""
    sort_key = f"{FORGOTTEN_PREFIX}{region}"
    return registry_partition(pipeline), f"{sort_key}#{category}" if category else sort_key


def forgotten_in(item: Item) -> tuple[str, str]:
    """Return the region and the category of what was forgotten; no category for the number."""
    region, _, category = item["sk"]["S"].removeprefix(FORGOTTEN_PREFIX).partition("#")
    return region, category


def task_of(item: Item | None) -> str:
    """Return what is under way in a region; empty for nothing."""
    return str((item or {}).get("task", {"S": ""}).get("S", ""))


def required_of(item: Item | None) -> str:
    """Return the form that a rebuild requires of lanes in a region; empty for any."""
    return str((item or {}).get("required", {"S": ""}).get("S", ""))


def last_audit_of(item: Item | None) -> int:
    """Return the number of the last audit of a region; 0 for none.

    Raises:
        DamagedItem: it is not a number.
    """
    return audit_of({"audit": item["last"]}) if item and "last" in item else 0


def difference_key(category: str, pipeline: str = "") -> Key:
    """Return the key of a category's difference."""
    return registry_partition(pipeline), f"{DIFFERENCE_PREFIX}{category}"


def difference_item(category: str, change: Decimal, audit: int, pipeline: str = "") -> Item:
    """Return the item of a category's difference."""
    partition, sort_key = difference_key(category, pipeline)
    return {
        "pk": {"S": partition},
        "sk": {"S": sort_key},
        "change": {"N": amounts.to_text(change)},
        "audit": {"N": str(audit)},
    }


def home_key(pipeline: str = "") -> Key:
    """Return the key of the item that names the region which keeps the states."""
    return registry_partition(pipeline), HOME_SORT_KEY


def home_item(region: str, pipeline: str = "") -> Item:
    """Return the item that names the region which keeps the states."""
    partition, sort_key = home_key(pipeline)
    return {"pk": {"S": partition}, "sk": {"S": sort_key}, "region": {"S": region}}


def form_key(fingerprint: str, pipeline: str = "") -> Key:
    """Return the key of a form."""
    return registry_partition(pipeline), f"{FORM_PREFIX}{fingerprint}"


def form_item(fingerprint: str, parts: Parts, pipeline: str = "") -> Item:
    """Return the item of a form."""
    partition, sort_key = form_key(fingerprint, pipeline)
    return {"pk": {"S": partition}, "sk": {"S": sort_key}, "parts": {"S": canonical(parts)}}


def parts_of(item: Item | None) -> Parts:
    """Read the parts of a form; None if it is missing or cannot be read."""
    try:
        found = json.loads((item or {})["parts"]["S"])
    except (KeyError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
