"""The files of examples/kubernetes and docker are right by their schemas. tests/hosts/test_pods.py runs them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FOLDER = EXAMPLES / "kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")

CUSTOM = ("kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org")  # which the cluster has only with their operators

# Of kubeflow.org/v2beta1, of which PyPI has no schemas: the fields of its definition that are used here. Its pods are
# checked as pods.
REPLICA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["template"],
    "properties": {
        "replicas": {"type": "integer", "minimum": 1},
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "template": {"type": "object"},
    },
}
MPI_JOB = {
    "type": "object",
    "additionalProperties": False,
    "required": ["mpiReplicaSpecs"],
    "properties": {
        "slotsPerWorker": {"type": "integer", "minimum": 1},
        "sshAuthMountPath": {"type": "string"},
        "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
        "runPolicy": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
                "backoffLimit": {"type": "integer", "minimum": 0},
            },
        },
        "mpiReplicaSpecs": {
            "type": "object",
            "additionalProperties": False,
            "required": ["Launcher"],
            "properties": {"Launcher": REPLICA, "Worker": REPLICA},
        },
    },
}
# Of version 3 of Compose's files, as Swarm reads them: the fields that are used. What else a service can have, Swarm
# refuses or leaves out, or Compose does.
STACK = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "services"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "version": {"pattern": "^3[.][6-9]$"},
        "services": {
            "type": "object",
            "patternProperties": {
                "^[a-zA-Z0-9._-]+$": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["image", "deploy"],
                    "properties": {
                        "image": {"type": "string"},
                        "command": {"type": "array", "items": {"type": "string"}},
                        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
                        "volumes": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["type"],
                                "properties": {
                                    "type": {"const": "tmpfs"},
                                    "target": {"type": "string"},
                                    "tmpfs": {"properties": {"size": {"type": "integer", "minimum": 0}}},
                                },
                            },
                        },
                        "deploy": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "endpoint_mode": {"enum": ["vip", "dnsrr"]},
                                "restart_policy": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "properties": {"condition": {"enum": ["none", "on-failure", "any"]}},
                                },
                            },
                        },
                    },
                }
            },
        },
    },
}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """Give every pod's template."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield value
        for child in value.values():
            yield from pods(child)
    elif isinstance(value, list):
        for child in value:
            yield from pods(child)


def check_pod(template: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    metadata = {"name": "pod", **template.get("metadata", {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    kubernetes_validate.validate(pod, "1.37", strict=True)


@pytest.mark.parametrize("name", FILES)
def test_schemas(name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    jsonschema = pytest.importorskip("jsonschema")
    models = pytest.importorskip("kubeflow_trainer_api.models")
    for document in documents(name):
        for template in pods(document):
            check_pod(template)
        group = document["apiVersion"].partition("/")[0]
        if group == "kubeflow.org":
            jsonschema.validate(document["spec"], MPI_JOB)
        elif group in ("jobset.x-k8s.io", "trainer.kubeflow.org"):
            kind = models.JobsetV1alpha2JobSet if group.startswith("jobset") else models.TrainerV1alpha1TrainJob
            read = kind.from_dict(document)
            assert yaml.safe_load(yaml.safe_dump(read.to_dict())) == document  # no field that is not there
        else:
            kubernetes_validate.validate(document, "1.37", strict=True)


@pytest.mark.parametrize("name", FILES)
def test_the_kustomization(tmp_path: Path, name: str) -> None:
    """As kubectl makes it of each file: all in one namespace, with the user's images."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization | {"resources": [name]}))
    done = subprocess.run(["kubectl", "kustomize", str(tmp_path)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    assert sorted(document["kind"] for document in made) == sorted(document["kind"] for document in documents(name))
    assert "registry.example/train" not in done.stdout
    for document in made:
        assert document["metadata"]["namespace"] == kustomization["namespace"]
        for subject in document.get("subjects", ()):
            assert subject["namespace"] == kustomization["namespace"]
        if document["apiVersion"].partition("/")[0] not in CUSTOM:
            kubernetes_validate.validate(document, "1.37", strict=True)


def test_compose_and_swarm() -> None:
    stack = yaml.safe_load((EXAMPLES / "docker/compose.yaml").read_text())
    pytest.importorskip("jsonschema").validate(stack, STACK)
    for service in stack["services"].values():
        assert service["deploy"]["restart_policy"]["condition"] == "none"  # a rank that has ended stays so
        assert service["deploy"]["endpoint_mode"] == "dnsrr"  # a name is the container's own address
        variables = service["environment"]
        assert variables["MASTER_ADDR"] in stack["services"]
        assert int(variables["WORLD_SIZE"]) == len(stack["services"])
