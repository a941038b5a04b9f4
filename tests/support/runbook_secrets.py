"""The runbook of rotated secrets: requests signed with a key that is not valid are refused."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from support.runbook_runs import COUNTER, FOLDS, RunbookRun, Scenario, with_changes

from ledger.settings.groups import Region

OLD, NEW = "AKIAOLDOLDOLDOLDOLD0", "AKIANEWNEWNEWNEWNEW0"
PROFILE = "ledger"
_KEY = re.compile(r"Credential=(\w+)/")
_PASSED = ("content-type", "x-amz-target", "authorization", "x-amz-date", "accept-encoding")
REFUSED = {
    "__type": "com.amazon.coral.service#UnrecognizedClientException",
    "message": "The security token included in the request is invalid.",
}


@dataclass
class Front:
    """Stands before a region's endpoint and looks at who signed: `valid` keys are let through."""

    endpoint: str
    valid: set[str]
    used: list[str] = field(default_factory=list)

    def start(self) -> ThreadingHTTPServer:
        """Serve on any free port until it is shut down."""
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers, answer = front.answer(dict(self.headers.items()), body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        return server

    def answer(
        self, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return what the region answers, or that the key is not valid."""
        found = _KEY.search(headers.get("Authorization", ""))
        key = found[1] if found else ""
        self.used.append(key)
        if key not in self.valid:
            return 400, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(REFUSED).encode()
        host = urlsplit(self.endpoint)
        connection = HTTPConnection(host.hostname or "", host.port)
        try:
            passed = {name: text for name, text in headers.items() if name.lower() in _PASSED}
            connection.request("POST", "/", body, passed)
            response = connection.getresponse()
            answer = response.read()
            kept = {
                name: text
                for name, text in response.getheaders()
                if name.lower()
                not in {"content-length", "connection", "transfer-encoding", "date", "server"}
            }
            return response.status, kept, answer
        finally:
            connection.close()


@dataclass
class Keys:
    """The fronts of all regions of one run."""

    fronts: list[Front] = field(default_factory=list)

    def set_valid(self, *keys: str) -> None:
        """Let only requests signed with these keys through."""
        for front in self.fronts:
            front.valid = {*keys}

    def seen(self) -> set[str]:
        """Return the keys that signed since the last call of `last_used`."""
        return {key for front in self.fronts for key in front.used}

    def last_used(self) -> set[str]:
        """Return the keys that signed what came since the last call."""
        used = self.seen()
        for front in self.fronts:
            front.used.clear()
        return used


def write_profile(run: RunbookRun, key: str) -> None:
    """Put a key into the credentials file, where every process finds it that starts from now on."""
    file = run.desk.folder / ".aws" / "credentials"
    file.parent.mkdir(exist_ok=True)
    text = f"[{PROFILE}]\naws_access_key_id = {key}\naws_secret_access_key = secret\n"
    file.write_text(text, encoding="utf-8")


class Rotation:
    """What AWS and people do while keys are rotated."""

    def __init__(self) -> None:
        self.keys = Keys()

    def prepare(self, run: RunbookRun) -> None:
        """Processes sign with the old key, and a compactor goes on with it."""
        with_changes(run)
        self.keys.fronts = [
            Front(run.settings.regions[name].endpoint or "", {OLD}) for name in run.settings.regions
        ]
        reached = {}
        for name, front in zip(run.settings.regions, self.keys.fronts, strict=True):
            server = front.start()
            run.undone += [server.server_close, server.shutdown]
            url = f"http://127.0.0.1:{server.server_port}"
            reached[name] = Region(endpoint=url, profile=PROFILE)
        self.direct = run.settings
        run.write_settings(run.settings.replace(regions=reached, compactor=FOLDS))
        write_profile(run, OLD)
        self.start_service(run)

    def start_service(self, run: RunbookRun) -> None:
        """Start a compactor, and wait for a pass of it."""
        going = run.start("compactor", "run", "--every", "500ms")
        run.wait_until(lambda: "collections visited" in going.file.read_text())

    def create(self, _run: RunbookRun) -> None:
        """Make the new key valid beside the old one."""
        self.keys.set_valid(OLD, NEW)

    def restart(self, run: RunbookRun) -> None:
        """Restart the compactor: what runs goes on with the old key until it ends."""
        self.keys.last_used()
        run.wait_until(lambda: OLD in self.keys.seen())
        run.going[-1].stop()
        self.start_service(run)

    def make_old_invalid(self, run: RunbookRun) -> None:
        """Refuse the old key; what runs does not use it any more."""
        self.keys.set_valid(NEW)
        self.keys.last_used()
        write_profile(run, OLD)
        refused = run.command("ledger table status")
        assert refused.status == 1
        write_profile(run, NEW)
        self.keys.last_used()

    def check(self, run: RunbookRun) -> None:
        """Nothing was signed with the old key since; totals are exact."""
        assert self.keys.last_used() == {NEW}
        assert run.going[-1].process.poll() is None
        assert "refused the credentials" not in run.going[-1].file.read_text()
        run.going[-1].stop()  # the passes of the check lead alone, and search
        run.settings = self.direct
        run.check_totals()


def _scenario() -> Scenario:
    rotation = Rotation()
    iam = "aws iam {}-access-key --user-name USER{}".format
    return Scenario(
        runbook="secrets-rotated",
        values={"USER": "ledger-compactor", "OLD_KEY": OLD, "COUNTER": COUNTER},
        prepare=rotation.prepare,
        foreign={
            iam("create", ""): rotation.create,
            "kubectl -n ledger rollout restart deployment/ledger-compactor": rotation.restart,
            iam("update", " --access-key-id OLD_KEY --status Inactive"): rotation.make_old_invalid,
            iam("delete", " --access-key-id OLD_KEY"): lambda _run: None,
        },
        events={
            "the new key is put into the credentials file": lambda run: write_profile(run, NEW)
        },
        check=rotation.check,
    )


SCENARIOS = (_scenario(),)
