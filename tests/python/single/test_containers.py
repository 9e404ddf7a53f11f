"""The files of examples/kubernetes and examples/docker: right by the published schemas, and run as containers would.

Pods are processes of this host. kubectl is a stand-in, which reads the running pods from a file and runs commands here.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_running import PORT, environment, finish, place, start  # noqa: F401 (a fixture)

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
KUBECTL = """#!/bin/sh
case "$1" in
get) cat "$PODS" ;;
exec) shift 4; exec "$@" ;;  # -i POD -- COMMAND
esac
"""
TRAIN = """
import os, time
import torch
import horovod.torch as hvd
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(1, 1), step=0)

@hvd.elastic.run
def train(state):
    while state.step < 20 or hvd.size() < 4:
        hvd.allreduce(torch.ones(1), name="step")
        state.step += 1
        if state.step == 5 and hvd.rank() == 0:
            with open(os.environ["PODS"], "a") as pods:
                print("train-worker-1:2", file=pods)
        state.commit()
        time.sleep(0.02)

train(state)
with open(f"told.{hvd.rank()}", "w") as file:
    file.write(str(hvd.size()))
"""


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


def test_a_jobset(place: Path) -> None:  # noqa: F811
    (job,) = documents("jobset.yaml")
    spec = job["spec"]["replicatedJobs"][0]["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (address,) = container["env"]
    replicated = job["spec"]["replicatedJobs"][0]["name"]
    assert address["value"] == f"{job['metadata']['name']}-{replicated}-0-0.{job['spec']['network']['subdomain']}"
    command = container["command"][2]
    assert f"--nnodes {spec['completions']}" in command
    command = command.replace("29500", PORT)
    nodes = [start(place, command, JOB_COMPLETION_INDEX=str(node), MASTER_ADDR="localhost") for node in range(2)]
    finish(place, 4, *nodes)


def test_a_train_job(place: Path) -> None:  # noqa: F811
    """With the variables that Kubeflow's runtime for PyTorch gives torchrun; the first pod is where nodes meet."""
    (job,) = documents("trainjob.yaml")
    trainer = job["spec"]["trainer"]
    given = {"PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": "2"}
    given |= {"PET_MASTER_ADDR": "localhost", "PET_MASTER_PORT": PORT}
    command = " ".join(trainer["command"])
    nodes = [start(place, command, PET_NODE_RANK=str(node), **given) for node in range(trainer["numNodes"])]
    finish(place, 2 * trainer["numNodes"], *nodes)


def test_an_mpi_job(place: Path) -> None:  # noqa: F811
    (job,) = documents("mpijob.yaml")
    replicas = job["spec"]["mpiReplicaSpecs"]
    command = replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]
    slots = job["spec"]["slotsPerWorker"]
    assert int(command[command.index("-np") + 1]) == replicas["Worker"]["replicas"] * slots
    hosts = place / "hostfile"
    hosts.write_text(f"localhost slots={slots}\n127.0.0.1 slots={slots}\n")  # the operator's has pods' names
    line = " ".join(command).replace("/etc/mpi/hostfile", str(hosts))
    finish(place, 4, start(place, line))


def test_an_elastic_job(place: Path) -> None:  # noqa: F811
    config, job = (next(d for d in documents("elastic.yaml") if d["kind"] == kind) for kind in ("ConfigMap", "Job"))
    (place / "train.py").write_text(TRAIN)
    (place / "pods").write_text("train-worker-0:2\n")
    (place / "bin" / "kubectl").write_text(KUBECTL)
    for name, text in config["data"].items():
        (place / name).write_text(text)
    for program in ("bin/kubectl", *config["data"]):
        (place / program).chmod(0o700)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    line = " ".join(container["command"]).replace("/job/", f"{place}/").replace("-np 4", "-np 2")
    variables = {entry["name"]: entry["value"].replace("/job/", f"{place}/") for entry in container["env"]}
    finish(place, 4, start(place, line, PODS=str(place / "pods"), **variables))


def test_compose_and_swarm(place: Path) -> None:  # noqa: F811
    stack = yaml.safe_load((EXAMPLES / "docker/compose.yaml").read_text())
    pytest.importorskip("jsonschema").validate(stack, STACK)
    services = stack["services"]
    processes = []
    for service in services.values():
        assert service["deploy"]["restart_policy"]["condition"] == "none"  # a rank that has ended stays so
        assert service["deploy"]["endpoint_mode"] == "dnsrr"  # a name is the container's own address
        variables = service["environment"]
        assert variables["MASTER_ADDR"] in services
        assert int(variables["WORLD_SIZE"]) == len(services)
        here = {**variables, "MASTER_ADDR": "localhost", "MASTER_PORT": PORT}
        processes.append(start(place, " ".join(service["command"]), **here))
    finish(place, len(services), *processes)


def test_the_discovery_script_asks_for_running_pods(place: Path) -> None:  # noqa: F811
    config = next(document for document in documents("elastic.yaml") if document["kind"] == "ConfigMap")
    told = place / "told"
    (place / "bin" / "kubectl").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}\n')
    (place / "bin" / "kubectl").chmod(0o700)
    done = subprocess.run(["sh", "-c", config["data"]["hosts.sh"]], env=environment(place), check=False)
    assert done.returncode == 0
    worker = next(document for document in documents("elastic.yaml") if document["kind"] == "Deployment")
    label = ",".join(f"{key}={value}" for key, value in worker["spec"]["template"]["metadata"]["labels"].items())
    assert told.read_text().split("\n")[:4] == ["get", "pods", "-l", label]
