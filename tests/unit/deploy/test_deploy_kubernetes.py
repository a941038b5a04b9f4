import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

KUBERNETES = Path(__file__).parents[3] / "deploy" / "kubernetes"
VALIDATED_VERSION = "1.31"
CUSTOM = {"ServiceMonitor"}
"""Kinds of operators, which Kubernetes itself does not know."""
WORKLOADS = {"CronJob": "compactor-cronjob.yaml", "Deployment": "compactor-deployment.yaml"}


def objects(name: str) -> list[dict[str, Any]]:
    """Give the objects of one file."""
    text = (KUBERNETES / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def everything() -> list[dict[str, Any]]:
    """Give the objects of all files."""
    return [each for path in sorted(KUBERNETES.iterdir()) for each in objects(path.name)]


def pod_of(kind: str) -> dict[str, Any]:
    """Give the pod that the CronJob or the Deployment makes."""
    [workload] = [each for each in objects(WORKLOADS[kind]) if each["kind"] == kind]
    spec = workload["spec"]
    if kind == "CronJob":
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


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_pod_is_restricted(kind: str) -> None:
    """The pod keeps the rules of the pod security standard `restricted`."""
    pod = pod_of(kind)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "hostNetwork" not in pod


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_container_is_bounded_and_pinned(kind: str) -> None:
    """The container asks for what it needs, is limited, and its image has a version."""
    [container] = pod_of(kind)["containers"]
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    assert re.fullmatch(r"ledger:\d+\.\d+\.\d+", container["image"])


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_settings_are_the_mounted_file(kind: str) -> None:
    """LEDGER_CONFIG names a file that the configmap of regions.yaml mounts."""
    pod = pod_of(kind)
    [container] = pod["containers"]
    [mount] = container["volumeMounts"]
    [volume] = pod["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": "ledger-regions"}}
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment["LEDGER_CONFIG"] == f"{mount['mountPath']}/regions.yaml"


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_account_of_the_pod_is_deployed(kind: str) -> None:
    """The pod runs under the account of common.yaml, in whose namespace it lies."""
    [account] = [each for each in objects("common.yaml") if each["kind"] == "ServiceAccount"]
    assert pod_of(kind)["serviceAccountName"] == account["metadata"]["name"]
    assert "eks.amazonaws.com/role-arn" in account["metadata"]["annotations"]
    namespaces = {
        each["metadata"]["namespace"] for each in everything() if each["kind"] != "Namespace"
    }
    assert namespaces == {"ledger"}


def test_the_scraped_port_is_the_one_served() -> None:
    """Annotation, container port and command agree on the port of the metrics."""
    [deployment] = [each for each in objects(WORKLOADS["Deployment"]) if "replicas" in each["spec"]]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    [container] = pod_of("Deployment")["containers"]
    [port] = container["ports"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert f"--metrics-port={port['containerPort']}" in container["args"]
    assert "--metrics-host=0.0.0.0" in container["args"]


def test_monitoring_is_of_the_deployment() -> None:
    """Policy, service and monitor select its pods, and name its port."""
    policy, service, monitor = objects("monitoring.yaml")
    pods = {"app.kubernetes.io/name": "ledger-compactor"}
    (container,) = pod_of("Deployment")["containers"]
    (port,) = container["ports"]
    assert policy["spec"]["podSelector"]["matchLabels"] == pods
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == port["containerPort"]
    assert service["spec"]["selector"] == pods
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
