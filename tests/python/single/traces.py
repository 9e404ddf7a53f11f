"""Timelines of jobs with planted causes, as the engine writes them; `traces.py FOLDER RANKS STEPS` writes some."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

EPOCH = 1_700_000_000_000_000


@dataclass
class Job:
    """A job whose ranks train. Times in microseconds.

    Attributes
    ----------
    work : float
        Of a step, in which tensors are submitted as they come, the last one at its end.
    run : float
        How long each tensor moves, one after the other.
    late : callable
        How much later a rank submits, by rank and step.
    """

    ranks: int = 4
    steps: int = 20
    tensors: int = 4
    work: float = 8000
    run: float = 200
    late: Callable[[int, int], float] = lambda rank, step: 40 * rank
    is_burst: bool = False  # all tensors are submitted at the end of the work
    cores: int = 64
    hosts: int = 1
    bytes: int = 4 << 20
    plan: str = "ring over shm"

    def write(self, folder: Path) -> list[Path]:
        """Write the ranks' files."""
        paths = [folder / f"trace.{rank}.json" for rank in range(self.ranks)]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("w")) for path in paths]
            for rank, file in enumerate(files):
                about = {"start_time_since_epoch_in_micros": EPOCH, "rank": rank, "size": self.ranks}
                about |= {"host": f"node{rank * self.hosts // self.ranks}", "cores": self.cores}
                file.write("[\n" + json.dumps({"name": "process_name", "ph": "M", "pid": 0, "args": about}) + "\n")
                for tensor in range(1, self.tensors + 1):
                    named = {"name": "process_name", "ph": "M", "pid": tensor, "args": {"name": f"grad.{tensor}"}}
                    file.write(f",{json.dumps(named)}\n")
            begin = 100.0 + self.work
            for step in range(self.steps):
                begin = self._write_step(files, step, begin)
            for file in files:
                file.write("]\n")
        return paths

    def _write_step(self, files: list, step: int, begin: float) -> float:
        """Return when the next step begins."""
        late = [self.late(rank, step) for rank in range(self.ranks)]
        order = sorted(range(self.ranks), key=late.__getitem__)
        ended = begin
        lines: list[tuple[int, str]] = []
        for tensor in range(1, self.tensors + 1):
            at = begin + self.work * (1 if self.is_burst else tensor / self.tensors)
            of_tensor = f'"pid": {tensor}'
            lines.append((int(at + late[order[0]]), f'"name": "NEGOTIATE_ALLREDUCE", "ph": "B", {of_tensor}'))
            lines += [(int(at + late[r]), f'"name": "{r}", "ph": "X", {of_tensor}, "dur": 0') for r in order]
            agreed = int(at + late[order[-1]] + 5)
            started = int(max(agreed + 5, ended))
            ended = started + int(self.run)
            launch = {"launch": step * self.tensors + tensor, "set": 0, "plan": self.plan, "tensors": 1}
            args = json.dumps({**launch, "bytes": self.bytes})
            lines += [
                (agreed, f'"name": "NEGOTIATE_ALLREDUCE", "ph": "E", {of_tensor}'),
                (agreed, f'"name": "ALLREDUCE", "ph": "B", {of_tensor}'),
                (agreed, f'"name": "QUEUE", "ph": "B", {of_tensor}'),
                (started, f'"ph": "E", {of_tensor}'),
                (started, f'"name": "SHM_ALLREDUCE", "ph": "B", {of_tensor}, "args": {args}'),
                (int(ended), f'"ph": "E", {of_tensor}'),
                (int(ended), f'"ph": "E", {of_tensor}, "args": {{"dtype": "float32", "shape": "[1048576]"}}'),
            ]
        lines.sort(key=lambda line: line[0])
        text = "".join(",{" + rest.replace(', "pid"', f', "ts": {at}, "pid"', 1) + "}\n" for at, rest in lines)
        for file in files:
            file.write(text)
        return ended + 10


if __name__ == "__main__":
    folder, ranks, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    slow = 3 * ranks // 4

    def late(rank: int, step: int) -> float:
        """One rank is a little late always, and another one now and then."""
        noise = (rank * 7919 + step * 104729) % 211
        return noise + (1500 if rank == slow else 0) + (9000 if step % 211 == 17 and rank == ranks // 3 else 0)

    Job(ranks, steps, int(sys.argv[4]) if len(sys.argv) > 4 else 4, late=late, hosts=max(ranks // 8, 1)).write(folder)
