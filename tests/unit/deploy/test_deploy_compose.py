"""The compose file: its commands, files and ports agree with each other and with the code."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml

import compactor.cli
import ledger.commands.local
import ledger.commands.serve
import ledger.commands.webhook
from ledger.http.webhooks.hooks import read_hooks
from ledger.settings import Settings

COMPOSE = Path(__file__).parents[3] / "deploy" / "compose"


@pytest.fixture
def services() -> dict[str, Any]:
    """Return the services by name."""
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the options of a command line, which is refused if the command does not take it."""
    if words[:2] == ["ledger", "serve"]:
        serving = typer.main.get_command(ledger.commands.serve.app)
        return dict(serving.make_context("serve", words[2:]).params)
    *names, first = words[: 2 if words[0] == "compactor" else 3]
    app = {
        "compactor": compactor.cli.app,
        "ledger local": ledger.commands.local.app,
        "ledger webhook": ledger.commands.webhook.app,
    }
    group = typer.main.get_group(app[" ".join(names)])
    context = group.commands[first].make_context(first, words[len(names) + 1 :])
    options: dict[str, Any] = context.params
    return options


def test_the_commands_are_taken(services: dict[str, Any]) -> None:
    """The table's ports are those that the compactor's settings name, and its probe asks."""
    table = parsed(services["table"]["command"])
    settings = Settings.load(COMPOSE / "regions.yaml")
    assert table["regions"].split(",") == list(settings.regions)
    endpoints = [region.endpoint for region in settings.regions.values()]
    assert endpoints == [f"http://127.0.0.1:{port}" for port in table["ports"].split(",")]
    _, *asked = services["table"]["healthcheck"]["test"]
    assert parsed(asked)["control_url"] == f"http://127.0.0.1:{table['control_port']}"
    run = parsed(services["compactor"]["command"])
    assert services["compactor"]["network_mode"] == "service:table"
    assert (
        f"127.0.0.1:{run['metrics_port']}/healthz"
        in services["compactor"]["healthcheck"]["test"][-1]
    )


def test_the_service_is_published_by_whose_network_it_is_in(services: dict[str, Any]) -> None:
    """Its port is one of the table's, its probe asks it, its tokens are on a volume."""
    service = services["service"]
    options = parsed(service["command"])
    assert service["network_mode"] == "service:table"
    assert services["table"]["ports"] == [f"127.0.0.1:{options['port']}:{options['port']}"]
    assert f"127.0.0.1:{options['port']}/readyz" in service["healthcheck"]["test"][-1]
    assert any(volume.endswith(f":{options['tokens'].parent}") for volume in service["volumes"])
    assert options["region"] in Settings.load(COMPOSE / "regions.yaml").regions


def test_webhooks_go_to_the_receiver(services: dict[str, Any]) -> None:
    """Its port is that of the file's URL; both are in the table's network."""
    worker, receiver = services["webhooks"], services["receiver"]
    options = parsed(worker["command"])
    assert f"./webhooks.yaml:{options['file']}:ro" in worker["volumes"]
    assert f"127.0.0.1:{options['metrics_port']}/healthz" in worker["healthcheck"]["test"][-1]
    assert {worker["network_mode"], receiver["network_mode"]} == {"service:table"}
    (hook,) = read_hooks(COMPOSE / "webhooks.yaml").values()
    host, port = urlsplit(hook.url).hostname, urlsplit(hook.url).port
    assert f'HTTPServer(("{host}", {port})' in receiver["command"][-1]
    compile(receiver["command"][-1], "receiver", "exec")


def test_prometheus_asks_the_compactor_the_service_and_the_worker_of_webhooks(
    services: dict[str, Any],
) -> None:
    """At the ports of their commands; of the service with a token from the volume of its tokens."""
    scraped = yaml.safe_load((COMPOSE / "prometheus.yml").read_text(encoding="utf-8"))
    ports = {
        "ledger-compactor": parsed(services["compactor"]["command"])["metrics_port"],
        "ledger-service": parsed(services["service"]["command"])["port"],
        "ledger-webhooks": parsed(services["webhooks"]["command"])["metrics_port"],
    }
    jobs = {job["job_name"]: job for job in scraped["scrape_configs"]}
    assert {name: job["static_configs"] for name, job in jobs.items()} == {
        name: [{"targets": [f"table:{port}"]}] for name, port in ports.items()
    }
    token = Path(jobs["ledger-service"]["authorization"]["credentials_file"])
    tokens = parsed(services["service"]["command"])["tokens"]
    (volume,) = (one for one in services["service"]["volumes"] if one.endswith(f":{tokens.parent}"))
    assert f"{volume.split(':')[0]}:{token.parent}:ro" in services["prometheus"]["volumes"]
    made = f"> {tokens.parent / token.name}'"
    assert made in (COMPOSE / "compose.yaml").read_text(encoding="utf-8")


def test_mounted_files_are_there_and_images_have_versions(services: dict[str, Any]) -> None:
    """Paths are relative to the compose file; what answers to the host does so on loopback."""
    for service in services.values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])
        for volume in service.get("volumes", ()):
            source, *_ = volume.split(":")
            assert not source.startswith(".") or (COMPOSE / source).is_file(), source
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_the_dashboard_finds_its_source_and_its_files(services: dict[str, Any]) -> None:
    """Grafana is told where Prometheus is, and where the dashboard was mounted."""
    source = yaml.safe_load((COMPOSE / "grafana.yaml").read_text(encoding="utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    boards = yaml.safe_load((COMPOSE / "dashboards.yaml").read_text(encoding="utf-8"))
    folder = boards["providers"][0]["options"]["path"]
    assert any(f":{folder}/" in volume for volume in services["grafana"]["volumes"])
