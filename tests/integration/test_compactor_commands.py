"""`compactor status`, `plan` and scheduled metrics as an operator uses them, on a local table."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.commands import Desk, open_desk

from compactor.metrics import LAST_SUCCESS
from ledger.core import keys

pytestmark = pytest.mark.slow
TIMES = {"settle": 2.0, "retry_horizon": 1.0, "observation_delay": 0.5, "read_deadline": 0.4}
FOLDS = {"fold_min": 3, "lease": 6.0, "heartbeat": 2.0, "scan_every": 0}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A table of three regions whose compactor folds three entries after two seconds."""
    with open_desk(tmp_path, regions=("us-east-1", "eu-west-1", "ap-southeast-1")) as desk:
        desk.write_settings(desk.settings(**TIMES, compactor=FOLDS))
        yield desk


def values(file: Path) -> dict[str, float]:
    """Return each metric without labels, by name."""
    families = text_string_to_metric_families(file.read_text(encoding="utf-8"))
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if not sample.labels
    }


def write_settled(desk: Desk) -> None:
    """Write four changes, let them replicate, and settle."""
    for _ in range(4):
        assert desk.run("ledger", "record", "shop", "1").status == 0
    desk.wait_replicated()
    desk.portal.call(anyio.sleep, TIMES["settle"])


def test_an_operator_sees_what_a_scheduled_pass_did(desk: Desk) -> None:
    """Nothing at first; then a pass, what it did, what is left; and what the next would do."""
    ran = desk.run("compactor", "status")
    assert ran.status == 0, ran.errors
    assert "no pass is recorded" in ran.out
    assert "there is nothing to merge" in desk.run("compactor", "plan", "shop").out
    write_settled(desk)
    file = desk.folder / "compactor.prom"
    ran = desk.run("compactor", "run", "--once", "--metrics-file", str(file))
    assert ran.status == 0, ran.errors
    shown = json.loads(desk.run("compactor", "status", "--json").out)
    (last,) = shown["passes"]
    assert (last["member"], last["outcome"], last["report"]["merged"]) == ("head", "done", 4)
    assert shown["last_success"]["age_seconds"] < 90
    assert shown["last_search"]["backlog"] == 4
    assert shown["regions"]["eu-west-1"]["lag_seconds"] is not None
    text = desk.run("compactor", "status").out
    assert "the last search" in text
    assert "found 4 entries to be merged, the oldest made at 20" in text
    plan = json.loads(desk.run("compactor", "plan", "shop", "--json").out)
    assert (plan["counted"], plan["deletes"], plan["folds"]) == (4, 4, 0)
    assert "a pass would delete 4" in desk.run("compactor", "plan", "shop").out
    left = values(file)
    assert left["compactor_scheduled"] == 1
    assert left["compactor_entries_merged_total"] == 4
    assert left[LAST_SUCCESS] > 0


def test_a_failed_pass_leaves_the_time_of_the_last_success(desk: Desk) -> None:
    """In the file and in the table; what failed is there, too; without a region it ends with 1."""
    file = desk.folder / "compactor.prom"
    words = ("compactor", "run", "--once", "--metrics-file", str(file))
    assert desk.run(*words).status == 0
    succeeded = values(file)[LAST_SUCCESS]
    write_settled(desk)
    desk.world.set_outage("eu-west-1", on=True)
    ran = desk.run(*words)
    assert ran.status == 1
    assert "region eu-west-1 cannot be read" in ran.out
    left = values(file)
    assert left[LAST_SUCCESS] == succeeded
    samples = [
        sample
        for family in text_string_to_metric_families(file.read_text(encoding="utf-8"))
        for sample in family.samples
        if sample.name == "compactor_region_not_read"
    ]
    assert [(sample.labels, sample.value) for sample in samples] == [({"region": "eu-west-1"}, 1)]
    ran = desk.run("compactor", "status")
    assert ran.status == 1
    assert "waiting" in ran.out
    assert "region eu-west-1 cannot be read" in ran.out
    assert "the last pass that succeeded ended at" in ran.out
    assert desk.run("compactor", "plan", "shop").status == 1


def test_metrics_are_pushed_without_a_success_that_never_was(desk: Desk) -> None:
    """To a gateway; one that is not there is one line, after what the pass said."""
    bodies: list[tuple[str, str, str]] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            bodies.append((self.command, self.path, body))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Gateway)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    ran = desk.run("compactor", "run", "--once", "--push-gateway", url)
    assert ran.status == 0, ran.errors
    desk.world.set_outage("us-east-1", on=True)
    assert desk.run("compactor", "run", "--once", "--push-gateway", url).status == 1
    server.shutdown()
    server.server_close()
    (_, path, good), (_, _, failed) = bodies
    assert path == "/metrics/job/ledger-compactor"
    assert f"\n{LAST_SUCCESS} " in good
    assert f"\n{LAST_SUCCESS} " not in failed
    ran = desk.run("compactor", "run", "--once", "--push-gateway", url)
    assert ran.status == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metrics-file", "a.txt"), "must end in .prom"),
        (("--metrics-file", "none/a.prom"), "there is no folder none"),
        (("--every", "1s", "--push-gateway", "http://x"), "go with --once"),
        (("--every", "1s", "--search"), "goes with --once"),
    ],
)
def test_a_wrong_place_for_metrics_is_refused_before_the_pass(
    words: tuple[str, ...], said: str, desk: Desk
) -> None:
    """With the rule, as a wrong command line."""
    once = () if "--every" in words else ("--once",)
    ran = desk.run("compactor", "run", *once, *words)
    assert ran.status == 2
    assert said in ran.errors
    assert not [
        item for item in desk.items("us-east-1", desk.settings()) if item[0] == keys.PASS_PARTITION
    ]
