"""What the demo writes is written, however busy the machine is."""

import pytest

from ledger.core.errors import NotSent
from ledger.demo.run import TRIES_MAX, until_sent


@pytest.mark.parametrize("unsent", [0, TRIES_MAX - 1, TRIES_MAX])
async def test_what_was_not_sent_is_written_again(unsent: int) -> None:
    """Once, as nothing was written before; at most so many times."""
    tries = list[int]()

    async def write() -> None:
        tries.append(1)
        if len(tries) <= unsent:
            raise NotSent("too late")

    if unsent == TRIES_MAX:
        with pytest.raises(NotSent):
            await until_sent(write)
    else:
        await until_sent(write)
    assert len(tries) == min(unsent + 1, TRIES_MAX)
