"""One Ray cluster of two nodes for all tests: addresses of this machine stand for the machines of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
# Else one in five of the servers that Ray Client forks dies (docs/running.md).
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Ray Train looks at its workers, and takes in what they reported, five times a second.
os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.2"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

CLIENT_PORT = 24680  # of the server that Ray Client connects to


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Nodes with room for four workers and for two, and the connection to them."""
    head = {"num_cpus": 4, "num_gpus": 2, "include_dashboard": False, "ray_client_server_port": CLIENT_PORT}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.add_node(num_cpus=2, node_ip_address="127.0.0.2")
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()
