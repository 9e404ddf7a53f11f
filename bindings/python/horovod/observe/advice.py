"""Advice on the time of a job's steps: one sentence for each cause that is found."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

from horovod.observe.steps import PACK, UNPACK, RankStep, Report

_NOTHING = "No rank holds the others up, and communication costs little: there is nothing to gain here."


def _copies(step: RankStep) -> float:
    return step.split.get(PACK, 0.0) + step.split.get(UNPACK, 0.0)


def _why(report: Report, rank: int) -> str:
    """Return what a straggler does while the others wait."""
    others = [steps for other, steps in report.ranks.items() if other != rank]
    if rank not in report.ranks or not others:
        return "there is no file of it that says why"
    own = report.ranks[rank].mean(lambda step: step.work)
    rest = statistics.fmean(other.mean(lambda step: step.work) for other in others)
    if own > rest * 1.1:
        return (
            f"in a step it spends {own / 1e3:.1f} ms (mean) with no operation under way, the others "
            f"{rest / 1e3:.1f} ms: its own work takes longer (input, computation, a slower or shared device)"
        )
    return "its own work takes no longer: it submits in another order, or hears of the others late"


def _straggler(report: Report) -> Iterator[str]:
    worst = max(report.held_up, key=report.held_up_share, default=None)
    if worst is None or report.held_up_share(worst) <= 0.1:
        return
    by_step = report.held_up[worst]
    peak = max(by_step, key=by_step.__getitem__)
    once = f", most of it in step {peak + 1}" if by_step[peak] > sum(by_step.values()) / 2 and len(by_step) > 1 else ""
    yield (
        f"Rank {worst} holds the others up: for {100 * report.held_up_share(worst):.0f} % of the time they wait for it "
        f"alone{once}; {_why(report, worst)}."
    )


def _shared_cores(report: Report) -> Iterator[str]:
    hosts = Counter(rank.about.host for rank in report.ranks.values())
    for host, count in hosts.items():
        cores = min(rank.about.cores for rank in report.ranks.values() if rank.about.host == host)
        if 0 < cores < count:
            yield (
                f"{count} ranks of {host or 'one host'} share {cores} core{'s' if cores > 1 else ''}: they take turns, "
                f"and all that they do takes longer. Start at most {cores} there, and look again."
            )


def _communication(report: Report) -> Iterator[str]:
    """Tell what makes the step wait for data, by the rank in the middle: each has its own steps."""
    ranks = sorted(report.ranks.values(), key=lambda rank: rank.share(lambda step: step.running - step.overlapped))
    middle = ranks[len(ranks) // 2]
    share = middle.share(lambda step: step.running)
    exposed = middle.share(lambda step: step.running - step.overlapped)
    if share <= 0.2 or exposed < share / 2 or any(_shared_cores(report)):  # who waits for a core is slow at all
        return
    seen = (
        f"Data move for {100 * share:.0f} % of the time, {100 * exposed / share:.0f} % of it after the step's last "
        "tensor was submitted"
    )
    fewer = "send fewer bytes (compression=hvd.Compression.bf16)"
    if share > 0.6:
        total = sum(each.bytes for each in report.launches)
        rate = total / max(sum(each.end - each.begin for each in report.launches), 1e-3) / 1e3
        plan = Counter(each.plan for each in report.launches if each.plan).most_common(1)
        yield (
            f"{seen}: longer than there is work to hide it behind. The link is the limit"
            + (f", with {rate:.2g} GB/s by {plan[0][0]}" if plan else "")
            + f": {fewer}, or see by roda-perf on these hosts whether it should be faster."
        )
    elif middle.share(lambda step: step.submitting) < 0.1:
        yield (
            f"{seen}: all tensors are submitted at once, when the work is done. Submit each as soon as it is there "
            "(a DistributedOptimizer does), in groups that are not too large."
        )
    else:
        yield f"{seen}, though tensors are submitted as they come: make groups smaller (groups=), or {fewer}."


def _small_launches(report: Report) -> Iterator[str]:
    per_step = sum(0 < launch.bytes < 64 << 10 for launch in report.launches) / len(report.read)
    if per_step >= 20:
        yield (
            f"{per_step:.0f} launches a step are smaller than 64 KiB: put tensors in groups (groups=, "
            "grouped_allreduce) or let ready ones wait a moment for others (HOROVOD_CYCLE_TIME=1)."
        )


def _packing(report: Report) -> Iterator[str]:
    copies = statistics.median(rank.share(_copies) for rank in report.ranks.values())
    running = statistics.median(rank.share(lambda step: step.running) for rank in report.ranks.values())
    if running > 0.1 and copies > 0.3 * running:
        yield (
            f"Packing and unpacking take {100 * copies / running:.0f} % of the time in which data move: a smaller "
            "HOROVOD_FUSION_THRESHOLD leaves large tensors where they are."
        )


def _slower_than_measured(report: Report) -> Iterator[str]:
    slow = [each for each in report.sizes if each.measured is not None and each.median < each.measured / 2]
    if slow:
        yield (
            f"Launches of {slow[-1].size} move {slow[-1].median:.3g} GB/s, where roda-perf measured "
            f"{slow[-1].measured:.3g}: something else takes the ranks' cores or the network meanwhile."
        )


_CAUSES = (_straggler, _shared_cores, _communication, _small_launches, _packing, _slower_than_measured)


def advise(report: Report) -> list[str]:
    """Return a sentence for each cause that costs time, or one that says that there is none."""
    return [sentence for cause in _CAUSES for sentence in cause(report)] or [_NOTHING]
