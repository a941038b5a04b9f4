"""The check of operations that are allowed only through the home region."""

from ledger.core.contract import NO_HOME
from ledger.core.errors import HomeMoving, InvalidInput
from ledger.settings import Settings
from ledger.store.port import Store


def check_home(store: Store, settings: Settings, *, what: str) -> None:
    """Check that a store is the home region's, where the conditions of a record hold for all.

    Raises:
        InvalidInput: it is another region's.
        HomeMoving: the home is being moved.
    """
    home = settings.terms.home
    if home == NO_HOME:
        raise HomeMoving(
            f"the home region is being moved, and {what} there: repeat the call once the change of"
            " the contract is in force (`ledger table show`)"
        )
    if store.region != home:
        raise InvalidInput(f"{what} in the home region {home}, not {store.region}")
