"""The files of examples/kubernetes and examples/docker, run as pods would be (pods.py)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import JOBS, LIMIT, make
from network import Network
from pods import ROOT, Pods
from test_jobs import numbers

MANIFESTS = ROOT / "examples" / "kubernetes"
PLACEMENT = (str(JOBS / "placement.py"),)


@pytest.fixture(scope="module")
def four_hosts() -> Iterator[Network]:
    yield from make(4)


Cluster = Callable[..., Pods]


@pytest.fixture
def cluster(four_hosts: Network, tmp_path: Path) -> Iterator[Cluster]:
    """Make the pods of a manifest."""
    with ExitStack() as stack:

        def pods(manifest: Path, names: dict[str, str], job: tuple[str, ...] = PLACEMENT) -> Pods:
            return stack.enter_context(Pods(four_hosts, tmp_path, manifest, names, job))

        yield pods


def placed(*pods: str, each: int = 1) -> list[str]:
    """Return what ranks tell, so many in each pod."""
    return [
        numbers(each * pod + rank, each * len(pods), (rank, each), (pod, len(pods)), name, True)
        for pod, name in enumerate(pods)
        for rank in range(each)
    ]


def a_job(cluster: Cluster) -> tuple[Pods, list[str], dict[str, Any]]:
    """Return the pods of a Job, which its Service makes known; their names, and their template."""
    names = [f"train-{index}" for index in range(4)]
    pods = cluster(MANIFESTS / "job.yaml", {name: f"{name}.train" for name in names})
    service, spec = pods.one("Service"), pods.one("Job")["spec"]
    assert (service["metadata"]["name"], spec["completions"]) == (spec["template"]["spec"]["subdomain"], 4)
    return pods, names, spec["template"]


def test_a_job(cluster: Cluster) -> None:
    pods, names, template = a_job(cluster)
    for index in (3, 2, 1, 0):  # the others may come first
        pods.start(names[index], template, JOB_COMPLETION_INDEX=str(index))
    pods.finish(*names)
    assert pods.told() == placed(*names)


def test_a_jobset(cluster: Cluster) -> None:
    names = ["train-node-0-0", "train-node-0-1"]
    pods = cluster(MANIFESTS / "jobset.yaml", {name: f"{name}.train" for name in names})
    spec = pods.one("JobSet")["spec"]["replicatedJobs"][0]["template"]["spec"]
    for index, name in enumerate(names):
        pods.start(name, spec["template"], JOB_COMPLETION_INDEX=str(index))
    pods.finish(*names)
    assert pods.told() == placed(*names, each=2)


def test_a_train_job(cluster: Cluster) -> None:
    """With the variables of the runtime `torch-distributed`, for a pod of two CPUs."""
    names = ["train-node-0-0", "train-node-0-1"]
    pods = cluster(MANIFESTS / "trainjob.yaml", {name: f"{name}.train" for name in names})
    trainer = pods.one("TrainJob")["spec"]["trainer"]
    pod = {"spec": {"containers": [{"command": trainer["command"]}]}}
    cores = trainer["resourcesPerNode"]["requests"]["cpu"]
    given = {"PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": cores}
    given |= {"PET_MASTER_ADDR": "train-node-0-0.train", "PET_MASTER_PORT": "29400"}
    for index, name in enumerate(names):
        pods.start(name, pod, PET_NODE_RANK=str(index), JOB_COMPLETION_INDEX=str(index), **given)
    pods.finish(*names)
    assert pods.told() == placed(*names, each=2)


def an_mpi_job(cluster: Cluster, slots: int = 0, agent: str | None = None) -> Pods:
    """Start what the operator makes of an MPIJob; a worker sleeps, in the place of its sshd."""
    names = {name: f"{name}.train.default.svc" for name in ("train-worker-0", "train-worker-1")}
    pods = cluster(MANIFESTS / "mpijob.yaml", {**names, "train-launcher": ""})
    spec = pods.one("MPIJob")["spec"]
    replicas = spec["mpiReplicaSpecs"]
    assert replicas["Worker"]["replicas"] == len(names)
    (worker,) = replicas["Worker"]["template"]["spec"]["containers"]
    for name in names:
        pods.start(name, {"spec": {"containers": [{**worker, "command": ["sleep", "infinity"]}]}})
    hosts = names if agent else names.values()
    files = {"/etc/mpi/hostfile": "".join(f"{host} slots={slots or spec['slotsPerWorker']}\n" for host in hosts)}
    given = {
        "K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_keep_fqdn_hostnames": "true", "NVIDIA_VISIBLE_DEVICES": "",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }  # fmt: skip
    if agent:
        files["/etc/mpi/kubexec.sh"] = agent
        given["OMPI_MCA_plm_rsh_agent"] = "/etc/mpi/kubexec.sh"
    pods.start("train-launcher", replicas["Launcher"]["template"], files, **given)
    return pods


def test_an_mpi_job(cluster: Cluster) -> None:
    pods = an_mpi_job(cluster)
    pods.finish("train-launcher")
    assert pods.told() == placed("train-worker-0", "train-worker-1", each=2)


def test_the_first_mpi_operator(cluster: Cluster) -> None:
    """Which had kubectl in the place of ssh, and gave it no input."""
    pods = an_mpi_job(cluster, agent='#!/bin/sh\npod=$1\nshift\nkubectl exec $pod -- /bin/sh -c "$*"\n')
    assert "must pass its input on (kubectl exec -i)" in pods.fail("train-launcher")


def test_an_elastic_job(cluster: Cluster) -> None:
    names = ["train", *(f"train-worker-{index}" for index in range(3))]
    job = (str(ROOT / "tests" / "elastic" / "worker.py"), "/told")
    pods = cluster(MANIFESTS / "elastic.yaml", dict.fromkeys(names, ""), job)
    worker = pods.one("Deployment")["spec"]["template"]
    told = pods.folder / "told" / "workers"
    told.mkdir()
    for name in names[1:3]:
        pods.start(name, worker)
    pods.start("train", pods.one("Job")["spec"]["template"])

    def goes_on(size: int, step: int) -> int:
        """Wait until so many go on, from that step or later; return the step."""
        limit = time.monotonic() + LIMIT
        while True:
            for line in (json.loads(text) for path in told.iterdir() for text in path.read_text().splitlines()):
                assert line["what"] != "wrong", line
                if line["what"] == "goes on" and line["size"] == size and line["step"] >= step:
                    return line["step"]
            assert pods.is_running("train"), pods.said("train")
            assert time.monotonic() < limit, pods.said("train")
            time.sleep(0.02)

    step = goes_on(4, 1)
    pods.start(names[3], worker)
    step = goes_on(6, step + 1)
    pods.delete(names[1])  # rank 0 was there
    goes_on(4, step)  # which was told before it was committed
    (pods.folder / "told" / "finish").touch()
    pods.finish("train")


def test_compose(cluster: Cluster) -> None:
    path = ROOT / "examples" / "docker" / "compose.yaml"
    services = yaml.safe_load(path.read_text())["services"]
    pods = cluster(path, {name: name for name in services})
    for name, service in services.items():
        variables = [{"name": key, "value": value} for key, value in service["environment"].items()]
        pods.start(name, {"spec": {"containers": [{"command": service["command"], "env": variables}]}})
    pods.finish(*services)
    assert pods.told() == placed(*services)


def test_fewer_slots_than_ranks(cluster: Cluster) -> None:
    pods = an_mpi_job(cluster, slots=1)
    said = pods.fail("train-launcher")
    assert "more processes (4) than there are available slots (2): train-worker-0" in said
    assert "; name more hosts or slots" in said


def test_fewer_slots_than_ranks_in_an_elastic_job(cluster: Cluster) -> None:
    pods = cluster(MANIFESTS / "elastic.yaml", {"train": "", "train-worker-0": ""})
    pods.start("train-worker-0", pods.one("Deployment")["spec"]["template"])
    pods.start("train", pods.one("Job")["spec"]["template"], HOROVOD_ELASTIC_TIMEOUT="1")
    assert "there are 2, and the job needs at least 4 Horovod processes. Wait longer (" in pods.fail("train")


def test_fewer_pods_than_ranks(cluster: Cluster) -> None:
    pods, names, template = a_job(cluster)
    for index in range(3):
        pods.start(names[index], template, JOB_COMPLETION_INDEX=str(index), HOROVOD_GLOO_TIMEOUT_SECONDS="3")
    for name in names[:3]:
        assert "rank 3 of 4 has not come" in pods.fail(name)


def test_more_pods_than_ranks(cluster: Cluster) -> None:
    pods, names, template = a_job(cluster)
    pods.start(names[3], template, JOB_COMPLETION_INDEX="3", WORLD_SIZE="3")
    assert "JOB_COMPLETION_INDEX=3, WORLD_SIZE=3 is no rank of a job" in pods.fail(names[3])
