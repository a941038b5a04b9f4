"""The user's function between a record and the form that reads it: `pipeline.adapt`.

It is called with each record as JSON gave it (a dict, fractions as `Decimal`) and returns the one
that is read in its place. What it returns for a record must never change, or the record's state
would be judged by one result and corrected by another. The pipeline cannot see that from the
function, so its name is part of the form's fingerprint, with a version to be raised by hand.
"""

import importlib
import sys
from functools import lru_cache
from pathlib import Path

from ledger.core.errors import SettingsError
from ledger.pipeline.core.records import Adapt, RecordForm
from ledger.settings import Settings


def form_of(settings: Settings, *, home: str = "") -> RecordForm:
    """Return the form of the settings' pipeline, with its function to adapt records.

    Raises:
        SettingsError: as `RecordForm`, or the function cannot be imported.
    """
    named = settings.pipeline.adapt
    return RecordForm(settings, home=home, adapt=None if named is None else import_adapter(named))


@lru_cache
def import_adapter(named: str) -> Adapt:
    """Return the function that `MODULE:FUNCTION`, or `MODULE:FUNCTION@VERSION`, names.

    A module in the current directory is found too, as by `python -m`.

    Raises:
        SettingsError: there is no such function, or it cannot be imported.
    """
    module, _, function = named.partition("@")[0].partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except Exception as error:  # importing runs the module's own code
        raise SettingsError(
            f"pipeline.adapt: {module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    adapt = getattr(found, function, None)
    if not callable(adapt):
        raise SettingsError(f"pipeline.adapt: module {module} has no function {function}")
    made: Adapt = adapt
    return made
