#!/usr/bin/env python3
"""Measures Roda beside Open MPI and Gloo, interleaved round by round, and prints medians and ratios.

float32 allreduce, in place, ranks of one host, or, with --hosts 2, of two network namespaces (as root); with --steps
also a training step's gradients, calls from PyTorch, and whole steps beside torch's DDP over Gloo. Every round
runs every contender once, in an order that rotates, so that whatever else the machine does meets all of them. A ratio
is the median over the rounds of (peer's time / Roda's time) of the same round. The peers' programs come from a build
folder (`meson setup build/native && ninja -C build/native`).
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/hosts"))
from network import WIRE, Network  # noqa: E402

# Where ranks 0 and 1 were, by what roda-perf calls it.
PLACES = {"near": "on near cores", "far": "on far cores", "same": "on one core", "-": "anywhere"}


def rows_of(output):
    """Return the JSON lines of a program's output."""
    return [json.loads(line[line.index("{") :]) for line in output.splitlines() if "{" in line]


def run(command, environment=None):
    """Return the rows that a program printed; its failure is ours."""
    done = subprocess.run(  # noqa: S603 (programs that the caller names)
        [str(part) for part in command], env=os.environ | (environment or {}), text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return rows_of(done.stdout)


def run_on_hosts(network, command, environment=None):
    """Return the rows that a launcher printed on the first host."""
    return run(network.command(network.hosts[0], [str(part) for part in command]),
               network.environment() | {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"} | (environment or {}))


def horovodrun(network, ranks):
    """Return the beginning of a command line that spreads ranks evenly over the hosts."""
    return ["horovodrun", "-np", ranks, "-H", slots(network, ranks)]


def slots(network, ranks):
    """Return the hosts as -H takes them."""
    return network.host_list(*[ranks // len(network.hosts)] * len(network.hosts))


class Roda:
    """The installed roda-perf where there is one, else that of the build folder with the plugins beside it."""

    def __init__(self, build, transport, network):
        self.name, self.transport, self.environment = f"roda-{transport}", transport, {}
        self.network = network
        self.program = ROOT / ".venv/bin/roda-perf"
        if not self.program.exists():
            self.program = build / "tools/perf/roda-perf"
            folders = [str(build / "transports" / part) for part in transport.split("+")]
            self.environment["HOROVOD_PLUGIN_PATH"] = ":".join(folders)

    def run(self, ranks, sizes):
        """Return one row per size."""
        what = [self.program, "-c", "allreduce", "-p", "in", "--json", "-s", ",".join(map(str, sizes))]
        if self.network is None:
            return run([*what, "-n", ranks, "-t", self.transport], self.environment)
        environment = self.environment | {"HOROVOD_CPU_OPERATIONS": self.transport}
        if self.transport == "mpi":
            return run_on_hosts(self.network, [*mpirun(self.network, ranks, environment), *what], environment)
        return run_on_hosts(self.network, [*horovodrun(self.network, ranks), *what], environment)


def mpirun(network, ranks, environment):
    """Return the beginning of Open MPI's command line; its processes of two hosts must not be bound to one core."""
    exported = [word for name in environment for word in ("-x", name)]
    return ["mpirun", "-np", ranks, "-H", slots(network, ranks), "--bind-to", "none",
            "-mca", "btl_tcp_if_include", WIRE, *exported]


class OpenMpi:
    """As mpirun starts it by default; `keepheap` keeps its scratch memory between calls."""

    def __init__(self, build, name, network, environment=None):
        self.name, self.program, self.environment = name, build / "tools/perf/peers/peer-openmpi", environment or {}
        self.network = network

    def run(self, ranks, sizes):
        """Return one row per size."""
        if self.network is not None:
            start = mpirun(self.network, ranks, self.environment)
            return run_on_hosts(self.network, [*start, self.program, f"--sizes={','.join(map(str, sizes))}"],
                                self.environment)
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return run(["mpirun", "--oversubscribe", "-np", ranks, self.program, f"--sizes={','.join(map(str, sizes))}"],
                   as_root | self.environment)


class Gloo:
    """gloo::allreduce over TCP, on the loopback or between the hosts."""

    name = "gloo"

    def __init__(self, build, network):
        self.program, self.network = build / "tools/perf/peers/peer-gloo", network

    def run(self, ranks, sizes):
        """Return one row per size."""
        with tempfile.TemporaryDirectory() as store:
            shared = {"PEER_SIZE": str(ranks), "PEER_STORE": store}
            command = [str(self.program), f"--sizes={','.join(map(str, sizes))}"]
            if self.network is not None:
                start = ["sh", "-c", 'PEER_RANK=$HOROVOD_RANK exec "$@"', "sh", *command]
                return run_on_hosts(self.network, [*horovodrun(self.network, ranks), *start],
                                    shared | {"PEER_INTERFACE": WIRE})
            processes = [
                subprocess.Popen(  # noqa: S603 (our own program)
                    command, env=os.environ | shared | {"PEER_RANK": str(rank)}, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, text=True,
                )
                for rank in range(ranks)
            ]
            outputs = [process.communicate(timeout=600)[0] for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError(f"gloo ended with {[process.returncode for process in processes]}")
        return rows_of(outputs[0])


class Sockets:
    """No collective: what bare connections between two hosts need for the bytes of an allreduce by levels.

    `sockets+work` makes the least of passes over memory besides: no implementation on these processors is quicker.
    """

    def __init__(self, build, network, name, environment=None):
        self.program, self.network = build / "tools/perf/peers/peer-sockets", network
        self.name, self.environment = name, environment or {}

    def run(self, ranks, sizes):
        """Return one row per size; one process on each host, whatever the number of ranks."""
        with tempfile.TemporaryDirectory() as store:
            command = [str(self.program), f"--sizes={','.join(map(str, sizes))}"]
            start = ["sh", "-c", 'PEER_RANK=$HOROVOD_RANK exec "$@"', "sh", *command]
            environment = {"PEER_STORE": store, "PEER_ADDRESS": self.network.hosts[0].address,
                           "PEER_LANES": str(max(1, ranks // 2))} | self.environment
            return run_on_hosts(self.network, [*horovodrun(self.network, 2), *start], environment)


def contenders(build, options, network):
    """List Roda first, then those of the peers that were built."""
    found = [Roda(build, transport, network) for transport in options.transports.split(",")]
    peers = build / "tools/perf/peers"
    if (peers / "peer-openmpi").exists() and shutil.which("mpirun"):
        found.append(OpenMpi(build, "openmpi", network))
        keep = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8000000000"}
        found.append(OpenMpi(build, "openmpi-keepheap", network, keep))
    if (peers / "peer-gloo").exists():
        found.append(Gloo(build, network))
    if network is not None and len(network.hosts) == 2:
        found.append(Sockets(build, network, "sockets"))
        found.append(Sockets(build, network, "sockets+work", {"PEER_WORK": "1"}))
    return [each for each in found if isinstance(each, Roda) or each.name in options.peers.split(",")]


def measure(build, options, network):
    """Return {(ranks, contender, bytes): [median_us of every round]}, the contenders' names, and where Roda ran.

    That is {(ranks, bytes): [whether its cores were near, far or one, and a flag's round trip, in every round]}.
    """
    times, places, everyone = {}, {}, contenders(build, options, network)
    for turn in range(options.rounds):
        for ranks in options.ranks:
            for step in range(len(everyone)):
                contender = everyone[(turn + step) % len(everyone)]
                for row in contender.run(ranks, options.sizes):
                    if row["check"] == "WRONG":
                        raise RuntimeError(f"{contender.name} summed wrongly: {row}")
                    times.setdefault((ranks, contender.name, row["bytes"]), []).append(row["median_us"])
                    if contender is everyone[0]:
                        where = {"cores": row.get("cores", "-"), "flag_us": row.get("flag_us", 0)}
                        places.setdefault((ranks, row["bytes"]), []).append(where)
                print(f"round {turn + 1}/{options.rounds} np {ranks} {contender.name}", file=sys.stderr, flush=True)
    return times, [contender.name for contender in everyone], places


def size_text(size):
    """Write bytes with the largest unit that fits."""
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(microseconds):
    """Write a time with its unit."""
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.1f} us"


def rounds_on(cores, places):
    """Return the numbers of the rounds in which Roda's ranks had such cores."""
    return [i for i, where in enumerate(places) if where["cores"] == cores]


def table(times, places, names, ranks, sizes, cores):
    """Write a Markdown table: medians over the rounds with Roda on near or far cores, and how much longer a peer takes.

    Medians over both would say nothing: these are different machines. Where the peers' ranks were in a round, at other
    moments of it, is not known.
    """
    ours, *peers = names
    heads = [f"np={ranks}, {ours} {PLACES[cores]}", "rounds", ours, *peers, *(f"{peer} / {ours}" for peer in peers)]
    lines = []
    for size in sizes:
        chosen = rounds_on(cores, places[ranks, size])
        if not chosen:
            continue
        rounds = [[times[ranks, name, size][i] for i in chosen] for name in names]
        ratios = [median(theirs / own for theirs, own in zip(values, rounds[0])) for values in rounds[1:]]
        cells = [str(len(chosen)), *(time_text(median(values)) for values in rounds),
                 *(f"{ratio:.2f}" for ratio in ratios)]
        lines.append((size_text(size), *cells))
    return markdown(heads, lines) if lines else ""


def write_page(path, told, tables, times, places, names, sizes, extra):
    """Write the tables as a page, each of allreduce with curves of the same medians."""
    import page  # needs matplotlib

    parts = []
    for (ranks, cores), text in tables.items():
        chosen = {size: rounds for size in sizes if (rounds := rounds_on(cores, places[ranks, size]))}
        drawn = {name: [(size, median(times[ranks, name, size][i] for i in rounds)) for size, rounds in chosen.items()]
                 for name in names}
        parts.append((f"Allreduce, np={ranks}, {PLACES[cores]}", page.curves(drawn) + page.table(text)))
    page.write(path, told, parts + [(heading, page.table(text)) for heading, text in extra.items()])


def steps(options, network):
    """Return tables, by heading, of what training does: a model's gradients, calls from PyTorch, and whole steps."""
    python, tools = ROOT / ".venv/bin/python", ROOT / "tools/perf"
    transports = options.transports.split(",")

    def job(ranks, *command):
        if network is not None:
            return run_on_hosts(network, [*horovodrun(network, ranks), *command])
        return run([ROOT / ".venv/bin/horovodrun", "-np", ranks, *command], {"HOROVOD_CPU_OPERATIONS": transports[0]})

    found = {}
    for ranks in options.ranks:
        models = []
        for model in ("resnet50", "gpt2"):
            rows = job(ranks, ROOT / ".venv/bin/roda-perf", "--launched", "--model", model, "--json")
            rows = [row for row in rows if "samples" in row]
            models += [(row["collective"], time_text(row["median_us"]), row["cores"]) for row in rows]
        found[f"A step's gradients, np={ranks}"] = markdown(("how", "median", "cores"), models)
        (calls,) = job(ranks, python, tools / "frameworks.py", "torch")
        cells = [(name, time_text(value["median"]), time_text(value["least"]))
                 for name, value in calls.items() if isinstance(value, dict)]
        found[f"Calls from PyTorch, np={ranks}"] = markdown(("what", "median", "least"), cells)
        rows = job(ranks, python, tools / "training.py", "--json")
        cells = [(f"{row['model']}, {row['way']}", f"{row['median_ms']:.1f} ms", f"{row['median_beyond_ms']:.1f} ms",
                  f"{row['median_of_peer']:.2f}") for row in rows]
        heads = ("model and way", "a step", "beyond computing", "of DDP over Gloo's")
        found[f"Whole steps of training, np={ranks}"] = markdown(heads, cells)
    return found


def markdown(heads, rows):
    """Write a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows))


def machine():
    """Describe where and when this was measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")
    return {"time": datetime.now(timezone.utc).isoformat(timespec="seconds"), "cores": os.cpu_count(), "cpu": model,
            "kernel": platform.release()}


def main():
    """Measure, print the tables, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/native", help="default: build/native")
    parser.add_argument("--transports", default="shm", help="of Roda; the ratios are to the first")
    parser.add_argument("--hosts", type=int, choices=(2, 3), help="network namespaces to spread the ranks over")
    parser.add_argument("--rate", help="what each of them may send, as tc writes it: 10gbit; not limited by default")
    parser.add_argument("--peers", default="openmpi,openmpi-keepheap,gloo",
                        help="beside it, of those that were built; with --hosts 2 also sockets, sockets+work")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 4096, 65536, 1 << 20, 16 << 20, 64 << 20])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", action="store_true", help="also what training does, of the installed product")
    parser.add_argument("--json", type=Path, help="write every round's medians there")
    parser.add_argument("--page", type=Path, help="write one HTML page with curves there; needs matplotlib")
    options = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the hosts go then, too
    with Network(options.hosts, options.rate) if options.hosts else nullcontext() as network:
        times, names, places = measure(options.build.resolve(), options, network)
        extra = steps(options, network) if options.steps else {}
    if options.json:
        records = [{"ranks": ranks, "contender": name, "bytes": size, "median_us": values,
                    "where": places[ranks, size]} for (ranks, name, size), values in times.items()]
        options.json.write_text(json.dumps({"machine": machine(), "records": records}, indent=1) + "\n")
    told = f"{machine()['cpu']}, {os.cpu_count()} cores, {options.rounds} interleaved rounds, {machine()['time']}"
    tables = {(ranks, cores): text for ranks in options.ranks for cores in PLACES
              if (text := table(times, places, names, ranks, options.sizes, cores))}
    print(told + "\n")
    for text in (*tables.values(), *(f"{heading}\n\n{text}" for heading, text in extra.items())):
        print(text + "\n")
    if options.page:
        write_page(options.page, told, tables, times, places, names, options.sizes, extra)


if __name__ == "__main__":
    main()
