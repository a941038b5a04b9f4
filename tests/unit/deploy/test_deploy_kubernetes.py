import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ledger.commands.serve import app as serve_app
from ledger.http.service.server import STOP_SECONDS_MAX
from ledger.settings.fields import parse_duration

KUBERNETES = Path(__file__).parents[3] / "deploy" / "kubernetes"
VALIDATED_VERSION = "1.31"
CUSTOM = {"ServiceMonitor"}
"""Kinds of operators, which Kubernetes itself does not know."""
WORKLOADS = {
    "compactor-cronjob": "CronJob",
    "compactor-deployment": "Deployment",
    "service-deployment": "Deployment",
    "webhooks-deployment": "Deployment",
}
"""Files, and the kind of what runs pods in each."""


def objects(name: str) -> list[dict[str, Any]]:
    """Give the objects of one file."""
    text = (KUBERNETES / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def everything() -> list[dict[str, Any]]:
    """Give the objects of all files."""
    return [each for path in sorted(KUBERNETES.iterdir()) for each in objects(path.name)]


def workload_of(name: str) -> dict[str, Any]:
    """Give what runs pods in a file."""
    [workload] = [each for each in objects(f"{name}.yaml") if each["kind"] == WORKLOADS[name]]
    return workload


def pod_of(name: str) -> dict[str, Any]:
    """Give the pod that a file's CronJob or Deployment makes."""
    spec = workload_of(name)["spec"]
    if WORKLOADS[name] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


@pytest.mark.tools("kubernetes_validate")
@pytest.mark.parametrize("place", range(len(everything())))
def test_every_object_keeps_kubernetes_schema(place: int) -> None:
    """Every object is one that Kubernetes knows, without a field that it does not."""
    validator: Any = import_module("kubernetes_validate")
    one = everything()[place]
    if one["kind"] in CUSTOM:
        assert one["apiVersion"].count("/") == 1
        return
    validator.validate(one, VALIDATED_VERSION, strict=True)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_pod_is_restricted(name: str) -> None:
    """The pod keeps the rules of the pod security standard `restricted`."""
    pod = pod_of(name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "hostNetwork" not in pod


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_container_is_bounded_and_pinned(name: str) -> None:
    """The container asks for what it needs, is limited, and its image has a version."""
    [container] = pod_of(name)["containers"]
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    assert re.fullmatch(r"ledger:\d+\.\d+\.\d+", container["image"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_settings_are_the_mounted_file(name: str) -> None:
    """LEDGER_CONFIG names a file that the configmap of regions.yaml mounts."""
    pod = pod_of(name)
    [container] = pod["containers"]
    [mount, *_] = container["volumeMounts"]
    volume = {"name": mount["name"], "configMap": {"name": "ledger-regions"}}
    assert volume in pod["volumes"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment["LEDGER_CONFIG"] == f"{mount['mountPath']}/regions.yaml"


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_account_of_the_pod_is_deployed(name: str) -> None:
    """The pod runs under an account with a role, in the namespace of common.yaml."""
    accounts = {
        each["metadata"]["name"]: each["metadata"]["annotations"]
        for each in everything()
        if each["kind"] == "ServiceAccount"
    }
    assert "eks.amazonaws.com/role-arn" in accounts[pod_of(name)["serviceAccountName"]]
    namespaces = {
        each["metadata"]["namespace"] for each in everything() if each["kind"] != "Namespace"
    }
    assert namespaces == {"ledger"}


@pytest.mark.parametrize("name", ["compactor-deployment", "webhooks-deployment"])
def test_the_scraped_port_is_the_one_served(name: str) -> None:
    """Annotation, container port and command agree on the port of the metrics."""
    annotations = workload_of(name)["spec"]["template"]["metadata"]["annotations"]
    [container] = pod_of(name)["containers"]
    [port] = container["ports"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert f"--metrics-port={port['containerPort']}" in container["args"]
    assert "--metrics-host=0.0.0.0" in container["args"]


@pytest.mark.parametrize(
    ("file", "name"),
    [("monitoring", "compactor-deployment"), ("webhooks-monitoring", "webhooks-deployment")],
)
def test_monitoring_is_of_the_deployment(file: str, name: str) -> None:
    """Policy, service and monitor select its pods, and name its port."""
    policy, service, monitor = objects(f"{file}.yaml")
    pods = workload_of(name)["spec"]["selector"]["matchLabels"]
    (container,) = pod_of(name)["containers"]
    (port,) = container["ports"]
    assert policy["spec"]["podSelector"]["matchLabels"] == pods
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == port["containerPort"]
    assert service["spec"]["selector"] == pods
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_the_services_objects_are_of_its_pods() -> None:
    """What routes to them, scales them, keeps some of them and scrapes them selects those pods."""
    deployment = workload_of("service-deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    found = {each["kind"]: each for each in objects("service-deployment.yaml")}
    policy, monitor = objects("service-monitoring.yaml")
    service = found["Service"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        policy["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target == {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]
    }  # fmt: skip
    assert "replicas" not in deployment["spec"]  # or each `apply` would undo the autoscaler
    (container,) = pod_of("service-deployment")["containers"]
    (port,) = container["ports"]
    assert f"--port={port['containerPort']}" in container["args"]
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == port["containerPort"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_a_pod_of_the_service_leaves_in_order() -> None:
    """It goes on until its unreadiness was seen, and is killed after its requests have ended."""
    pod = pod_of("service-deployment")
    (container,) = pod["containers"]
    context = typer.main.get_command(serve_app).make_context("serve", container["args"][2:])
    drain = parse_duration(context.params["drain"])
    probe = container["readinessProbe"]
    assert drain >= probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert pod["terminationGracePeriodSeconds"] > drain + STOP_SECONDS_MAX
    assert {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")} == {
        "/healthz", "/readyz"
    }  # fmt: skip
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(context.params["tokens"].parent) in mounts
