#!/usr/bin/env python3
"""Measures the links that predictions go by, and prints a file for RODA_LINKS.

    tools/perf/measure_links.py > links.json                      # this machine: memory and loopback
    tools/perf/measure_links.py --hosts a:1,b:1 > links.json       # and the network between two hosts

Two ranks each: an allreduce of 4 bytes by recursive doubling is one message each way, which is a latency and the
overhead at both ends (taken as half and a quarter each); a broadcast of 16 MiB is one transfer. Takes a few seconds.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = 4, 16 << 20


def median_us(command, environment, collective, rule, size):
    """Return roda-perf's median for two ranks and one rule."""
    what = ["-c", collective, "-p", "in", "--json", "-s", str(size)]
    done = subprocess.run(  # noqa: S603 (our own program)
        [*command, *what], env=os.environ | environment | {"HOROVOD_SELECT": f"{collective} = {rule}"},
        text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"measure_links: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stderr}")
    (row,) = (json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line)
    return row["median_us"]


def link(command, environment, transport):
    """Return one link's figures."""
    exchange = median_us(command, environment, "allreduce", f"{transport}/recursive_doubling", SMALL)
    transfer = median_us(command, environment, "broadcast", f"{transport}/binomial", LARGE)
    return {
        "latency_us": round(exchange / 2, 2),
        "overhead_us": round(exchange / 4, 2),
        "GBps": round(LARGE / (transfer - exchange) / 1e3, 3),
    }


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="a build folder to take roda-perf and the plugins from")
    parser.add_argument("--hosts", help="two hosts, as horovodrun's -H takes them")
    options = parser.parse_args()
    program, environment = ROOT / ".venv/bin/roda-perf", {}
    if options.build is not None:
        program = options.build / "tools/perf/roda-perf"
        plugins = ":".join(str(options.build / "transports" / name) for name in ("shm", "tcp"))
        environment = {"HOROVOD_PLUGIN_PATH": plugins}
    here = [program, "-n", "2"]
    links = {"memory": link(here, environment, "shm"), "loopback": link(here, environment, "tcp")}
    if options.hosts is not None:
        links["network"] = link(["horovodrun", "-np", "2", "-H", options.hosts, program], environment, "tcp")
    print(json.dumps({**links, "source": "measured"}, indent=2))


if __name__ == "__main__":
    main()
