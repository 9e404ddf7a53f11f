#!/usr/bin/env python3
"""Do the seeds find faults? Makes small ones in the engine, one at a time, and plays seeds until one goes wrong.

    tests/seeds/mutants.py --count 40 --seed 1          # draws them; a copy of the sources lies in build/mutants
    tests/seeds/mutants.py --only core/control/control_plane.cc:226:drop

A mutant that no seed finds is listed; one that can't be found, with the reason, stands in EQUIVALENT.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("negotiate", "control", "launch", "execute", "submit", "engine")
# Observers, tools, the start, and what needs a device: no seed reaches them.
LEFT_OUT = (
    "core/negotiate/bench", "core/engine/start.cc", "core/engine/affinity", "core/engine/version", "engine_tune.cc",
    "core/execute/trace.h", "core/execute/device_queue", "core/engine/holder_watch.h", "core/negotiate/validate.cc",
    "core/execute/compose/explain", "core/submit/producers.h", "core/engine/environment", "core/launch/average",
)  # fmt: skip
# Of kinds. Lines in another order mostly make no difference.
SHARES = ("turn", "drop", "wake", "turn", "drop", "swap", "turn", "wake", "drop", "turn")
TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
COMPARISON = re.compile(r" (<=|>=|==|!=|<|>|&&|\|\|) ")
WAKE = re.compile(r"\b(wake\w*|ring|pulse|arm|notify_all|listen|note_bell)\(")
STATEMENT = re.compile(
    r"^ +(?!return|const |auto |static|using|for |if |else|while|case|break|continue|default|std::\w+<|\})"
    r"[a-z_]\w*[\w.:>\-\[\]()]*(\(| = | \+= |\+\+|--).*;$"
)
NO_FAULT = re.compile(
    r"RODA_LOG|RODA_INVARIANT|reserve\(|format\(|timeline_|recorder_|last_ranks_|static_assert|operator"
    r"|native_|stream|device|completion"  # neither loop nor tcp has collectives or memory of its own kind
)

# file: {line's text: why no seed can tell it from the original}
DROP_PULSES = "who drops the baton pulses, too"
EQUIVALENT: dict[str, dict[str, str]] = {
    "core/engine/engine.cc": {
        "work = launcher_.moves_data() || !arm() || submissions_.has_news();": "the engine's thread wakes more often",
        "baton_.pulse();": DROP_PULSES,
        "bells_.wake_engine();": "let_go() wakes it, since the engine has stopped",
    },
    "core/engine/engine_drive.cc": {"baton_.pulse();": DROP_PULSES},
    "core/control/host_segment.cc": {"if (!processes_[peer] && errno == ESRCH) {": "the peer is this process"},
    "core/negotiate/negotiator.cc": {
        "set->filling.close(count);": "of buckets on devices",
        "outcome->announced(slot.agreed->name, slot.agreed->collective, ranks);": "for the timeline",
        "if (bits.last >= 0) speaks_ = bits.last;": "for the report of late ranks",
    },
    "core/submit/operation.cc": {
        "request.shape.clear();": "who submits gives it a shape",
        "if (has_order && stream == nullptr && completion != nullptr) {": "of tensors on devices",
    },
}


@dataclass(frozen=True)
class Mutant:
    """A fault: in which file, at which line (from 1), of which kind, and the lines in the place of those there."""

    file: str
    line: int
    kind: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.kind}"


def mutants_of(file: str, lines: list[str]) -> list[Mutant]:
    """All mutants of a source file's lines."""
    found = []
    for i, line in enumerate(lines):
        if NO_FAULT.search(line) or line.lstrip().startswith("//"):
            continue
        code = line.split("  //")[0]
        if '"' not in code and "template" not in code and "#" not in code:
            for turn in COMPARISON.finditer(code):
                turned = code[: turn.start(1)] + TURNED[turn[1]] + code[turn.end(1) :]
                found.append(Mutant(file, i + 1, f"turn{turn.start(1)}", (line,), (turned,)))
        if not STATEMENT.match(code):
            continue
        kind = "wake" if WAKE.search(code) else "drop"
        found.append(Mutant(file, i + 1, kind, (line,), ("",)))
        follower = lines[i + 1] if i + 1 < len(lines) else ""
        same_depth = len(follower) - len(follower.lstrip()) == len(line) - len(line.lstrip())
        both_assign = " = " in line and " = " in follower  # mostly of members that have nothing to do with each other
        if same_depth and STATEMENT.match(follower) and not NO_FAULT.search(follower) and not both_assign:
            found.append(Mutant(file, i + 1, "swap", (line, follower), (follower, line)))
    return found


def all_mutants() -> list[Mutant]:
    """Those of all rooms' sources."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / "core" / room).rglob("*")):
            file = str(path.relative_to(ROOT))
            if path.suffix in (".cc", ".h") and not any(part in file for part in LEFT_OUT):
                found += mutants_of(file, path.read_text().split("\n"))
    return found


def draw(count: int, seed: int, headers: bool) -> list[Mutant]:
    """Mutants of all rooms, by SHARES; those of `headers` take long to build."""
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in all_mutants():
        if mutant.file.endswith(".h") and not headers:
            continue
        by_kind.setdefault(mutant.kind.rstrip("0123456789"), []).append(mutant)
    drawing = random.Random(seed)  # noqa: S311
    for mutants in by_kind.values():
        drawing.shuffle(mutants)
    return [by_kind[SHARES[i % len(SHARES)]].pop() for i in range(count)]


class Workshop:
    """A copy of the sources with a build of its own."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.build = folder / "build"
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
        for name in files.split():
            to = self.source / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
                shutil.copyfile(ROOT / name, to)  # newer than what was built of it
        os.environ["CCACHE_BASEDIR"] = str(self.source)
        if not (self.build / "build.ninja").exists():
            options = ["-Dpython=disabled", "--buildtype=plain", "-Doptimization=1", "-Dunity=off"]
            subprocess.run(["meson", "setup", *options, self.build, self.source], check=True)  # noqa: S603, S607
        self.make("transports/loop/roda_loop.so", "transports/tcp/roda_tcp.so", check=True)

    def make(self, *targets: str, check: bool = False) -> bool:
        """Whether the seeds (and `targets`) can be built."""
        command = ["ninja", "-j1", "-C", self.build, "tests/seeds/seeds", *targets]
        return subprocess.run(command, check=check, capture_output=not check).returncode == 0  # noqa: S603

    def play(self, seconds: int) -> str:
        """What the seeds find in that time; empty: nothing."""
        plugins = ":".join(str(self.build / "transports" / name) for name in ("loop", "tcp"))
        command = [self.build / "tests/seeds/seeds", "--seed", "1", "--count", "100000", "--seconds", str(seconds)]
        environment = {**os.environ, "HOROVOD_PLUGIN_PATH": plugins}
        try:
            run = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, timeout=3 * seconds + 30, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return "a rank never gives way"
        if run.returncode == 0:
            return ""
        lines = [line for line in (run.stdout + run.stderr).split("\n") if line and not line.startswith("seeds from")]
        return lines[0][:150] if lines else f"it ends with {run.returncode}"

    def judge(self, mutant: Mutant, seconds: int) -> tuple[str, str]:
        """The verdict on a mutant, and what was seen."""
        reason = EQUIVALENT.get(mutant.file, {}).get(mutant.before[0].strip())
        if reason:
            return "equivalent", reason
        path = self.source / mutant.file
        original = path.read_text()
        lines = original.split("\n")
        at = mutant.line - 1
        lines[at : at + len(mutant.before)] = mutant.after
        try:
            path.write_text("\n".join(lines))
            if not self.make():
                return "does not build", ""
            seen = self.play(seconds)
            return ("found", seen) if seen else ("NOT FOUND", "")
        finally:
            path.write_text(original)


def main() -> int:
    """Judge mutants, print each, and the rate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20, help="of seeds, of each")
    parser.add_argument("--headers", action="store_true", help="of headers, too")
    parser.add_argument("--only", nargs="+", default=[], help="mutants by name, FILE:LINE:KIND")
    parser.add_argument("--list", action="store_true", help="how many there are")
    arguments = parser.parse_args()
    if arguments.list:
        print(len(all_mutants()))
        return 0
    chosen = draw(arguments.count, arguments.seed, arguments.headers)
    if arguments.only:
        chosen = [m for m in all_mutants() if m.name in arguments.only]
    workshop = Workshop(ROOT / "build" / "mutants")
    if not workshop.make(check=True) or workshop.play(arguments.seconds):
        print("without a fault, too, a seed goes wrong")
        return 1
    verdicts: dict[str, int] = {}
    for mutant in chosen:
        begun = time.monotonic()
        verdict, seen = workshop.judge(mutant, arguments.seconds)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        print(
            f"{verdict:14} {mutant.name}  {mutant.before[0].strip()}  [{time.monotonic() - begun:.0f} s] {seen}",
            flush=True,
        )
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
