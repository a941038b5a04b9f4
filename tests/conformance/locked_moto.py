"""moto itself as a server, one call at a time: the only way in which its transactions hold."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.engines import settings_of

from ledger.settings import Settings


@contextmanager
def running() -> Iterator[Settings]:
    """Run moto with nothing of ours before it but a lock, and without a table.

    Without the lock it answers concurrent transactions with a 500, or tears them.
    """
    # Its server brings Flask and 40 more packages, which the extra `test` does without.
    from moto.dynamodb.responses import DynamoHandler  # noqa: PLC0415
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    lock, unlocked = threading.Lock(), DynamoHandler.call_action

    def one_at_a_time(handler: Any) -> Any:
        with lock:
            return unlocked(handler)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(DynamoHandler, "call_action", one_at_a_time)
        server.start()
        try:
            yield settings_of("http://{}:{}".format(*server.get_host_and_port()))
        finally:
            server.stop()
