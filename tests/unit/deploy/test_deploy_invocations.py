import json
import re
from pathlib import Path

import pytest
import typer
import yaml

from compactor.cli import app
from ledger.commands.serve import app as serve_app
from ledger.commands.webhook import app as webhook_app

DEPLOY = Path(__file__).parents[3] / "deploy"


def kubernetes(name: str) -> list[str]:
    """Give the command line of the container in a file."""
    text = (DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")
    found = yaml.safe_load_all(text)
    workload = next(one for one in found if one["kind"] in {"CronJob", "Deployment"})
    spec = workload["spec"].get("jobTemplate", workload)["spec"]
    [container] = spec["template"]["spec"]["containers"]
    words: list[str] = container["args"]
    return words


def first(pattern: str, *path: str) -> str:
    """Give what a pattern finds first in a file."""
    found = re.search(pattern, (DEPLOY.joinpath(*path)).read_text(encoding="utf-8"))
    assert found
    return found[1]


def systemd(name: str) -> list[str]:
    """Give the command line of a unit."""
    return first(r"ExecStart=/opt/ledger/bin/(.*)", "systemd", f"{name}.service").split()


COMMAND_LINES = {
    "cronjob": kubernetes("compactor-cronjob.yaml"),
    "deployment": kubernetes("compactor-deployment.yaml"),
    "image": json.loads(first(r'CMD (\["compactor", .*\])', "container", "Dockerfile")),
    "systemd": systemd("ledger-compactor"),
}


@pytest.mark.parametrize("place", COMMAND_LINES)
def test_every_command_line_is_one_that_the_compactor_takes(place: str) -> None:
    """What is deployed calls the compactor with options that it has: once, or every so often."""
    program, command, *options = COMMAND_LINES[place]
    assert (program, command) == ("compactor", "run")
    group = typer.main.get_group(app)
    context = group.commands["run"].make_context("run", options)
    assert context.params["once"] == (context.params["every"] is None)


@pytest.mark.parametrize(
    "words",
    [kubernetes("service-deployment.yaml"), systemd("ledger-service")],
    ids=["pods", "unit"],
)
def test_every_command_line_is_one_that_the_service_takes(words: list[str]) -> None:
    """It shows tokens, so that it may listen elsewhere than on loopback."""
    program, command, *options = words
    assert (program, command) == ("ledger", "serve")
    context = typer.main.get_command(serve_app).make_context("serve", options)
    assert context.params["tokens"]
    assert not context.params["insecure"]


@pytest.mark.parametrize(
    "words",
    [kubernetes("webhooks-deployment.yaml"), systemd("ledger-webhooks")],
    ids=["pods", "unit"],
)
def test_every_command_line_is_one_that_the_worker_of_webhooks_takes(words: list[str]) -> None:
    """It serves its metrics, by which alerts see that it runs."""
    assert words[:3] == ["ledger", "webhook", "run"]
    group = typer.main.get_group(webhook_app)
    context = group.commands["run"].make_context("run", words[3:])
    assert context.params["metrics_port"]
