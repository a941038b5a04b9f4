"""How the holder of a local global table talks to it: in the process, or by its control port."""

import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ledger.core.errors import LocalTableError
from ledger.local.options import REPLICATION_WAIT_SECONDS_MAX

ANSWER_SECONDS_MAX = REPLICATION_WAIT_SECONDS_MAX + 30.0

Control = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Carries out a control request by name and returns the status after it; blocks meanwhile."""


def control_by_http(control_url: str) -> Control:
    """Return the control of a table that runs in another process.

    Raises (when used):
        LocalTableError: nothing answers there, or the request was refused.
    """
    try:
        parts = urlsplit(control_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise LocalTableError(f"{control_url!r} is not the control URL of a local global table")

    def control(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS_MAX)
        try:
            if name == "status":
                connection.request("GET", "/status")
            else:
                connection.request("POST", f"/{name}", body=json.dumps(body))
            response = connection.getresponse()
            answer: Any = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise LocalTableError(
                f"no local global table answers at {control_url}: {error}"
            ) from None
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise LocalTableError(f"no local global table answers at {control_url}: no object")
        if "error" in answer:
            raise LocalTableError(str(answer["error"]))
        return answer

    return control
