"""Jobs on two Ray nodes, each on a host of its own, of which one is lost in training: the cable first, so that it can't
say that it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lost import COMMIT_EVERY, STEPS_AFTER
from two_hosts import LIMIT, NoNamespacesError, RayHosts, wait_until


@pytest.fixture(scope="module")
def hosts() -> Iterator[RayHosts]:
    """Room for two workers on the head, and for one on the other."""
    try:
        with RayHosts(2, 1) as made:
            yield made
    except NoNamespacesError as error:
        pytest.skip(f"no network namespaces: {error}")


def told(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Return each process's steps, with the number of workers."""
    files = (folder / "told").iterdir()
    return {path.name: [tuple(map(int, line.split())) for line in path.read_text().splitlines()] for path in files}


def train(hosts: RayHosts, kind: str, folder: Path, size: int, steps: int) -> object:
    """Train so many steps among so many, lose a host, and return what the training came to."""
    (folder / "told").mkdir()
    said = folder / "said"
    hosts.join()
    command = [sys.executable, str(Path(__file__).parent / "lost.py"), kind, hosts.address, str(folder)]
    with said.open("w") as output:
        driver = hosts.start(0, command, output, TELL_FOLDER=str(folder / "told"))

    def is_trained() -> bool:
        ranks = told(folder).values()
        return len(ranks) == size and all(len(each) >= steps and each[-1][1] == size for each in ranks)

    wait_until(is_trained, driver, said)
    hosts.lose()
    assert driver.wait(LIMIT) == 0, said.read_text()
    return json.loads(said.read_text().rpartition("came to ")[2])


def test_the_executor_goes_on_from_the_last_commit(hosts: RayHosts, tmp_path: Path) -> None:
    results = train(hosts, "elastic", tmp_path, 3, COMMIT_EVERY + 2)
    steps = [each for each in told(tmp_path).values() if each[-1][1] == 2]
    assert len(steps) == 2
    assert all(each[0] == (1, 3) for each in steps)  # processes that were there from the beginning
    before = max(step for each in steps for step, size in each if size == 3)
    (first,) = {next(step for step, size in each if size == 2) for each in steps}
    assert (first - 1) % COMMIT_EVERY == 0
    assert 0 <= before - (first - 1) <= COMMIT_EVERY
    assert results == [[0, first + STEPS_AFTER - 1], [1, first + STEPS_AFTER - 1]]


def test_the_trainer_goes_on_from_the_last_checkpoint(hosts: RayHosts, tmp_path: Path) -> None:
    metrics = train(hosts, "trainer", tmp_path, 2, 3)
    first, again = ([each for each in told(tmp_path).values() if (each[0][0] == 1) == is_so] for is_so in (True, False))
    assert len(first) == len(again) == 2  # all start anew
    began = metrics["began"]
    assert 0 < began <= 1 + max(each[-1][0] for each in first)  # Ray has not taken in all that were reported
    assert again == [[(step, 2) for step in range(began + 1, began + STEPS_AFTER + 1)]] * 2
