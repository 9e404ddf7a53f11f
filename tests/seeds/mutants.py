#!/usr/bin/env python3
"""Do the seeds find faults? Writes small ones into the engine, and plays seeds with one at a time until one goes wrong.

    tests/seeds/mutants.py --count 40 --seed 1          # draws them
    tests/seeds/mutants.py --only core/control/control_plane.cc:226:drop

All faults lie in one build, of a copy of the sources in build/mutants: RODA_MUTANT in the environment says which one
is made (mutants.h). A mutant that no seed finds is listed; one that can't be found, with the reason, stands in
EQUIVALENT.
"""

import argparse
import os
import random
import re
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
COMPARISON = re.compile(r" (<=|>=|==|!=|<|>) ")
WAKE = re.compile(r"\b(wake\w*|ring|pulse|arm|notify_all|listen|note_bell)\(")
STATEMENT = re.compile(
    r"^ +(?!return|const |auto |static|using|for |if |else|while|case|break|continue|default|std::\w+<|\})"
    r"[a-z_]\w*[\w.:>\-\[\]()]*(\(| = | \+= |\+\+|--).*;$"
)
NO_FAULT = re.compile(
    r"RODA_LOG|RODA_INVARIANT|reserve\(|format\(|timeline_|recorder_|last_ranks_|static_assert|operator"
    r"|native_|stream|device|completion"  # neither loop nor tcp has collectives or memory of its own kind
)

# file: {line's text, behind the kind where it is of one: why no seed can tell it from the original}
DROP_PULSES = "who drops the baton pulses, too"
DEVICES = "of devices"
OBSERVERS = "for observers"
SAME = "either order, or either side of the limit, comes to the same"
MORE = "more wakes, or more looks, than needed"
EQUIVALENT: dict[str, dict[str, str]] = {
    "core/engine/engine.cc": {
        "work = launcher_.moves_data() || !arm() || submissions_.has_news();": MORE,
        "baton_.pulse();": DROP_PULSES,
        "bells_.wake_engine();": "let_go() wakes it, since the engine has stopped",
        "swap: baton_.begin_turn();": SAME,
        ": is_set_(microseconds >= 0), is_slept_(microseconds >= 1000), looks_(looks) {": SAME,
        "counts = members[members.front() == last ? 1 : 0] == parts_.rank;": OBSERVERS,
    },
    "core/engine/engine_drive.cc": {
        "baton_.pulse();": DROP_PULSES,
        "swap: idle = turn_after_sleep(rang);": SAME,
    },
    "core/engine/engine_end.cc": {"baton_.pulse();": DROP_PULSES, "std::fflush(nullptr);": OBSERVERS},
    "core/engine/baton.cc": {"event.events = engine_events;": MORE},
    "core/engine/last_ranks.h": {
        "swap: lateness.cause = {};": OBSERVERS,
        "told_ = lateness;": OBSERVERS,
        "if (watch_.steps() >= next_steps_ && at >= next_look_) look(at);": OBSERVERS,
    },
    "core/engine/bucket_demand.h": {
        "std::erase_if(entries_, [set](const auto& entry) { return entry.first.set == set; });": DEVICES,
    },
    "core/control/host_segment.cc": {
        "if (!processes_[peer] && errno == ESRCH) {": "the peer is this process",
        "if (std::chrono::steady_clock::now() > deadline) {": SAME,
        "return process.fd >= 0 && ::poll(&process, 1, limit_ms) > 0;": SAME,
        "swap: presences_[self].reset(ends[0]);": SAME,
        "maps_segment = line.find(kLabel) != std::string::npos;": OBSERVERS,
    },
    "core/control/log_ring.h": {"known_slowest_ = slowest();": MORE},
    "core/negotiate/negotiator.cc": {
        "set->filling.close(count);": "of buckets on devices",
        "outcome->announced(slot.agreed->name, slot.agreed->collective, ranks);": "for the timeline",
        "if (bits.last >= 0) speaks_ = bits.last;": "for the report of late ranks",
        "outcome->complete(*slot.agreed, speaks_);": OBSERVERS,
        "swap: set->joined.clear();": SAME,
        "swap: set->cache.touch(bit);": SAME,
        "swap: leaving_.erase(found);": SAME,
    },
    "core/negotiate/bucket.cc": {"swap: hash.add(static_cast<std::uint64_t>(terms.collective));": SAME},
    "core/negotiate/members.h": {"next = static_cast<std::size_t>(last) + 1;": MORE},
    "core/submit/operation.cc": {
        "request.shape.clear();": "who submits gives it a shape",
        "request.splits.clear();": "who submits gives it splits",
        "swap: request.group = {};": SAME,
        "if (has_order && stream == nullptr && completion != nullptr) {": "of tensors on devices",
    },
    "core/submit/submissions.cc": {
        "earliest->next_submitted = submitted_.load(std::memory_order_relaxed);": "the exchange loads it, too",
    },
    "core/launch/launcher.cc": {
        "owner_->finished(run, status, false);": DEVICES,
        "swap: sets_.clear();": SAME,
        "swap: moved = true;": SAME,
    },
    "core/launch/payload.cc": {"const bool stays_here = means_.buffers != nullptr || size() == 1;": DEVICES},
    "core/execute/memory.cc": {
        "made->memory.struct_size = sizeof made->memory;": "for plugins newer than these",
        "std::erase_if(outgrown_, is_lent);": "loop and tcp lend nothing",
    },
    "core/execute/pack.cc": {
        "swap: in_.clear();": SAME,
        "const bool doubles = done > 0 && !queue_.is_host();": DEVICES,
    },
    "core/execute/schedule/program_stage.cc": {
        "if (effort.moves == before || effort.budget == 0) break;": "a turn moves more, or less",
        "const int kind = args.queue == nullptr ? int{RODA_MEMORY_HOST} : args.queue->memory_kind();": DEVICES,
    },
    "core/execute/schedule/run.h": {"swap: find_far_peers();": SAME},
    "core/execute/schedule/lane_run.cc": {"swap: push(request, bytes);": SAME, "swap: state_.posted += bytes;": SAME},
}


@dataclass(frozen=True)
class Mutant:
    """A fault: in which file, at which line (from 1), of which kind, and the lines that it is about."""

    file: str
    line: int
    kind: str
    code: tuple[str, ...]
    column: int = 0  # of a comparison

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.kind}"

    def write(self, lines: list[str], number: int, plain: list[str]) -> None:
        """Put the fault among the file's lines, to be made when it has the number; `plain`: the lines before swaps."""
        at = self.line - 1
        when = f"::mutants::is({number})"
        if self.kind.startswith("turn"):
            turn = COMPARISON.match(lines[at], self.column)
            mark = f" {turn[1]} ::mutants::at<{number}>" if turn else ""
            lines[at] = lines[at][: self.column] + mark + lines[at][self.column :]
        elif self.kind == "swap":
            lines[at] = f"if ({when}) {{ {plain[at + 1]} }} else {{ {lines[at]} }}"
            lines[at + 1] = f"if ({when}) {{ {plain[at]} }} else {{ {lines[at + 1]} }}"
        else:
            statement = lines[at].split("  //")[0].strip().rstrip(";")
            lines[at] = f"({when} ? void() : void({statement}));"


def mutants_of(file: str, lines: list[str]) -> list[Mutant]:
    """All mutants of a source file's lines."""
    found = []
    for i, line in enumerate(lines):
        if NO_FAULT.search(line) or line.lstrip().startswith("//"):
            continue
        code = line.split("  //")[0]
        if '"' not in code and "template" not in code and "#" not in code:
            for turn in COMPARISON.finditer(code):
                found.append(Mutant(file, i + 1, f"turn{turn.start(1)}", (line,), turn.start()))
        before = lines[i - 1].split("  //")[0].rstrip()
        if not STATEMENT.match(code) or not re.search(r"(^|[;{}:)]|else|^ *//.*)$", before):
            continue
        kind = "wake" if WAKE.search(code) else "drop"
        found.append(Mutant(file, i + 1, kind, (line,)))
        follower = lines[i + 1] if i + 1 < len(lines) else ""
        same_depth = len(follower) - len(follower.lstrip()) == len(line) - len(line.lstrip())
        both_assign = " = " in line and " = " in follower  # mostly of members that have nothing to do with each other
        if same_depth and STATEMENT.match(follower) and not NO_FAULT.search(follower) and not both_assign:
            found.append(Mutant(file, i + 1, "swap", (line, follower)))
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


def draw(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many, by SHARES."""
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_kind.setdefault(mutant.kind.rstrip("0123456789"), []).append(mutant)
    drawing = random.Random(seed)  # noqa: S311
    for of_kind in by_kind.values():
        drawing.shuffle(of_kind)
    chosen: list[Mutant] = []
    while len(chosen) < min(count, len(mutants)):
        chosen += [by_kind[kind].pop() for kind in SHARES if by_kind.get(kind)]
    return chosen[:count]


class Workshop:
    """A copy of the sources, with all mutants that can be built in one build."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.build = folder / "build"
        self.unfit = folder / "do-not-build.txt"
        unfit = self.unfit.read_text().split() if self.unfit.exists() else []
        self.mutants = {number: m for number, m in enumerate(all_mutants(), 1) if m.name not in unfit}
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
        for name in files.split():
            self._write(name, (ROOT / name).read_bytes())
        os.environ["CCACHE_BASEDIR"] = str(self.source)
        if not (self.build / "build.ninja").exists():
            options = ["-Dpython=disabled", "--buildtype=plain", "-Doptimization=1", "-Dunity=off"]
            options.append(f"-Dcpp_args=-w -include {self.source}/tests/seeds/mutants.h")
            subprocess.run(["meson", "setup", *options, self.build, self.source], check=True)  # noqa: S603, S607
        while not self._make():
            pass

    def _write(self, name: str, text: bytes) -> None:
        of_file = [(number, mutant) for number, mutant in self.mutants.items() if mutant.file == name]
        if of_file:
            lines = text.decode().split("\n")
            # Comparisons from the right, then lines, then pairs of them.
            order = sorted(of_file, key=lambda each: (each[1].kind == "swap", -each[1].column))
            plain: list[str] = []
            for number, mutant in order:
                if mutant.kind == "swap" and not plain:
                    plain = list(lines)
                mutant.write(lines, number, plain)
            text = "\n".join(lines).encode()
        to = self.source / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or to.read_bytes() != text:
            to.write_bytes(text)

    def _make(self) -> bool:
        """Whether it can be built; else what can't goes."""
        targets = ["tests/seeds/seeds", "transports/loop/roda_loop.so", "transports/tcp/roda_tcp.so"]
        command = ["ninja", "-k0", "-j1", "-C", str(self.build), *targets]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode == 0:
            return True
        named = {(m[1], int(m[2])) for m in re.finditer(r"((?:core)/[\w/.]+):(\d+)", done.stdout)}
        named |= {(file, line + 1) for file, line in named}  # a line that goes on
        bad = [number for number, m in self.mutants.items() if (m.file, m.line) in named]
        if not bad:
            raise RuntimeError(done.stdout)
        files = {self.mutants[number].file for number in bad}
        print(f"{len(bad)} do not build", flush=True)
        with self.unfit.open("a") as unfit:
            unfit.writelines(f"{self.mutants.pop(number).name}\n" for number in bad)
        for name in files:
            self._write(name, (ROOT / name).read_bytes())
        return False

    def play(self, number: int, seconds: int) -> str:
        """What the seeds find in that time with the mutant (0: none); empty: nothing."""
        plugins = ":".join(str(self.build / "transports" / name) for name in ("loop", "tcp"))
        command = [self.build / "tests/seeds/seeds", "--seed", "1", "--count", "100000", "--seconds", str(seconds)]
        environment = {**os.environ, "HOROVOD_PLUGIN_PATH": plugins, "RODA_MUTANT": str(number)}
        try:
            run = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, timeout=2 * seconds + 20, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return "a rank never gives way"
        if run.returncode == 0:
            return ""
        lines = [line for line in (run.stdout + run.stderr).split("\n") if line and not line.startswith("seeds from")]
        return lines[0][:150] if lines else f"it ends with {run.returncode}"

    def judge(self, number: int, seconds: int) -> tuple[str, str]:
        """The verdict on a mutant, and what was seen."""
        mutant = self.mutants[number]
        reasons, line = EQUIVALENT.get(mutant.file, {}), mutant.code[0].strip()
        reason = reasons.get(line) or reasons.get(f"{mutant.kind}: {line}")
        if reason:
            return "equivalent", reason
        seen = self.play(number, seconds)
        return ("found", seen) if seen else ("NOT FOUND", "")


def main() -> int:
    """Judge mutants, print each, and the rate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20, help="of seeds, of each")
    parser.add_argument("--only", nargs="+", default=[], help="mutants by name, FILE:LINE:KIND")
    parser.add_argument("--list", action="store_true", help="how many there are")
    arguments = parser.parse_args()
    if arguments.list:
        print(len(all_mutants()))
        return 0
    workshop = Workshop(ROOT / "build" / "mutants")
    if seen := workshop.play(0, arguments.seconds):
        print("without a fault, too, a seed goes wrong:", seen)
        return 1
    number_of = {mutant: number for number, mutant in workshop.mutants.items()}
    chosen = draw(list(number_of), arguments.count, arguments.seed)
    if arguments.only:
        chosen = [mutant for mutant in number_of if mutant.name in arguments.only]
    verdicts: dict[str, int] = {}
    for mutant in chosen:
        begun = time.monotonic()
        verdict, seen = workshop.judge(number_of[mutant], arguments.seconds)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        print(
            f"{verdict:14} {mutant.name}  {mutant.code[0].strip()}  [{time.monotonic() - begun:.0f} s] {seen}",
            flush=True,
        )
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
