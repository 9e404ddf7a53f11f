#!/usr/bin/env python3
"""Compares the simulator's predictions with measured allreduces between network namespaces with shaped links.

Needs root. The network's latency and overhead are taken from one measurement (4 bytes between two hosts), its bandwidth
from the rate that the links are shaped to; everything else is predicted. The programs are the build folder's:
`meson setup build/native && ninja -C build/native`.

With --control: messages and processor time (the least of the rounds) of agreeing on a step's 161 tensors, of so many
ranks as processes, 8 on each of as many pretended hosts. roda-sim counts records. What a record costs of n ranks is
a - b / n: the share of a rank's memory that it finds in the caches when its turn comes falls like 1 / n. a and b are
measured with the first and the last number of ranks; the others are predicted. Needs no root.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/hosts"))
from network import Network  # noqa: E402

# An Ethernet frame as tc counts it has 1514 bytes, of which 1448 are data.
GOODPUT = 1448 / 1514
PLANS = {
    "ring": "tcp/ring",
    "recursive_doubling": "tcp/recursive_doubling",
    "hierarchical:direct/ring/direct": "levels/hierarchical",
    "hierarchical:direct/ordered/int8/direct": "levels/hierarchical; allreduce@between = tcp/ordered/int8",
}


def rows_of(command, environment=None):
    """Return the JSON lines that a program printed; its failure is ours."""
    done = subprocess.run(  # noqa: S603 (programs of the build folder)
        [str(part) for part in command], env=os.environ | (environment or {}), text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line]


def measure(options, network, per_host, rule, sizes):
    """Return the median seconds of each size, over the rounds."""
    ranks = per_host * len(network.hosts)
    plugins = ":".join(str(options.build / "transports" / name) for name in ("shm", "tcp"))
    environment = network.environment() | {
        "HOROVOD_PLUGIN_PATH": plugins,
        "HOROVOD_SELECT": f"allreduce = {rule}; reducescatter = shm/direct; allgather = shm/direct",
        "PATH": f"{options.bin}:{ROOT}/.venv/bin:{os.environ['PATH']}",
    }
    command = [
        "horovodrun", "-np", str(ranks), "-H", network.host_list(*[per_host] * len(network.hosts)),
        str(options.build / "tools/perf/roda-perf"), "-c", "allreduce", "-p", "in", "--json",
        "-s", ",".join(map(str, sizes)), *(["--no-check"] if "/int8" in rule else []),
    ]  # fmt: skip
    times = {}
    for _ in range(options.rounds):
        for row in rows_of(network.command(network.hosts[0], command), environment):
            times.setdefault(row["bytes"], []).append(row["median_us"] * 1e-6)
    return {size: median(all_of) for size, all_of in times.items()}


CPU = "processor time of a step of all ranks"
# Inside a host: memory that a peer reads, or sockets, whose every byte both ends copy.
MEMORY = {"latency_us": 0.3, "overhead_us": 0.5, "GBps": 5}
LOOPBACK = {"latency_us": 12, "overhead_us": 6, "GBps": 3, "full_duplex": False}


def cluster(options, per_host, latency, inside):
    """Describe the hosts for roda-sim."""
    return {
        "name": "shaped",
        "levels": [
            {"name": "host", "members": per_host, **inside},
            {"name": "network", "latency_us": latency * 5e5, "overhead_us": latency * 2.5e5,
             "GBps": options.mbit / 8e3 * GOODPUT},
        ],
        "reduce_GBps": 4,
    }  # fmt: skip


def predict(options, description, ranks, plan, size):
    """Return the simulated seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(description, file)
        file.flush()
        (row,) = rows_of([
            options.build / "tools/sim/roda-sim", "-t", file.name, "-n", ranks, "-s", size, "-a", plan, "--json",
        ])  # fmt: skip
    return row["time_us"] * 1e-6


def compare(options, network, latency):
    """Print a line for each plan and size; return the ratios of the predicted to the measured times."""
    ratios = []
    hosts = len(network.hosts)
    for per_host in options.per_host:
        for plan in options.plans:
            rule = PLANS[plan]
            description = cluster(options, per_host, latency, LOOPBACK if rule.startswith("tcp") else MEMORY)
            if plan.startswith("hierarchical") and per_host == 1:
                continue
            measured = measure(options, network, per_host, rule, options.sizes)
            for size in options.sizes:
                predicted = predict(options, description, hosts * per_host, plan, size)
                ratios.append(predicted / measured[size])
                print(f"| {hosts} x {per_host} | {plan} | {size} | {measured[size] * 1e3:.3g} ms | "
                      f"{predicted * 1e3:.3g} ms | {ratios[-1]:.2f} |", flush=True)  # fmt: skip
    return ratios


def agree(options, ranks):
    """Return what `roda-perf --control` tells, and what `roda-sim --control` counts."""
    environment = {"HOROVOD_PLUGIN_PATH": str(options.build / "transports/tcp")}
    command = [options.build / "tools/perf/roda-perf", "--control", "--json", "-n", ranks, "--hosts", ranks // 8]
    told = {row["figure"]: row["value"] for row in rows_of(command, environment)}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        levels = [{"name": "host", "members": 8, "GBps": 1}, {"name": "network", "GBps": 1}]
        json.dump({"name": "pretended", "levels": levels}, file)
        file.flush()
        rows = rows_of([options.build / "tools/sim/roda-sim", "--control", "--json", "-t", file.name, "-n", ranks])
    return told, next(row for row in rows if row.get("control") == "ours")


def cost_of_record(ranks, costs):
    """Return what a record costs of n ranks, a - b / n, from the first and the last of those measured."""
    saved = (costs[-1] - costs[0]) / (1 / ranks[0] - 1 / ranks[-1])
    return lambda n: costs[-1] + saved * (1 / ranks[-1] - 1 / n)


def compare_control(options):
    """Print a line for each number of ranks; return the ratios of the predicted to the measured processor times."""
    rounds = [[agree(options, ranks) for ranks in options.control] for _ in range(options.rounds)]
    best = [min(runs, key=lambda run: run[0][CPU]) for runs in zip(*rounds)]
    cost = cost_of_record(options.control, [told[CPU] / counted["records"] for told, counted in best])
    print("| ranks | messages of a step: counted / predicted | processor time of all | a step |\n|---|---|---|---|")
    ratios = []
    for ranks, (told, counted) in zip(options.control, best):
        measured, predicted = told[CPU], cost(ranks) * counted["records"]
        ratios.append(predicted / measured)
        messages = f"{told['messages of a step']:.0f} / {counted['messages_per_rank'] * ranks:.0f}"
        times = f"{measured / 1e3:.1f} / {predicted / 1e3:.1f} ms | {told['a step'] / 1e3:.1f} ms"
        print(f"| {ranks} | {messages} | {times} |", flush=True)
    return ratios[1:-1]


def summary(ratios):
    """Return how many are within 25 %."""
    within = sum(0.75 <= ratio <= 1.25 for ratio in ratios)
    return f"\n{within} of {len(ratios)} predictions within 25 %; ratios from {min(ratios):.2f} to {max(ratios):.2f}"


def main():
    """Measure, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/native", help="the build folder")
    parser.add_argument("--bin", type=Path, default=ROOT / ".venv/bin", help="where horovodrun is")
    parser.add_argument("--mbit", type=int, default=1000, help="what each host may send, in Mbit/s")
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 3], choices=range(2, 9))
    parser.add_argument("--per-host", type=int, nargs="+", default=[1, 2], help="ranks")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1 << 16, 1 << 20, 1 << 24])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plans", nargs="+", default=list(PLANS), choices=PLANS, metavar="PLAN")
    parser.add_argument(
        "--control", type=int, nargs="+", metavar="RANKS", help="three multiples of 8 or more, ascending: see above"
    )
    options = parser.parse_args()
    if options.control and (len(options.control) < 3 or options.control != sorted(set(options.control))):
        parser.error("--control wants three numbers of ranks or more, ascending")
    if options.control:
        print(summary(compare_control(options)))
        return 0
    rate = f"{options.mbit}mbit"
    with Network(2, rate=rate) as network:
        latency = measure(options, network, 1, "tcp/recursive_doubling", [4])[4]
    print(f"4 bytes between two hosts: {latency * 1e6:.0f} us; links of {rate}\n")
    print("| hosts x ranks | plan | bytes | measured | predicted | predicted / measured |\n|---|---|---|---|---|---|")
    ratios = []
    for hosts in options.hosts:
        with Network(hosts, rate=rate) as network:
            ratios += compare(options, network, latency)
    print(summary(ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
