from __future__ import annotations

import copy
import pickle

import horovod.torch as hvd
import pytest
import torch
from common import process_set
from horovod.common import program_end


def test_global_set() -> None:
    assert hvd.global_process_set.process_set_id == 0
    assert hvd.global_process_set.ranks == list(range(hvd.size()))
    assert hvd.global_process_set.size() == hvd.size()
    assert hvd.global_process_set.rank() == hvd.rank()
    assert hvd.global_process_set.included()
    assert hvd.remove_process_set(hvd.global_process_set) is False


def test_a_set_is_removed_without_leaving_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rank has asked for is waited for; what keeps it in the job at its end is not."""
    if hvd.size() == 1:
        pytest.skip("needs a set that is not the global one")
    called: list[str] = []
    monkeypatch.setattr(program_end, "finishers", [lambda: called.append("finisher")])
    monkeypatch.setattr(program_end, "stays", [lambda: called.append("stay")])
    with process_set([0]):
        pass
    assert called == ["finisher"] * (hvd.rank() == 0)


def test_a_set_works_among_its_members() -> None:
    if hvd.size() < 3:
        pytest.skip("needs three ranks: with two the set would be the global one")
    last = hvd.size() - 1
    with process_set([last, 0]) as pair:
        assert pair.ranks == [0, last]
        assert pair.size() == 2
        assert pair.included() == (hvd.rank() in (0, last))
        value = torch.full((3,), float(hvd.rank()))
        if pair.included():
            assert pair.rank() == (0 if hvd.rank() == 0 else 1)
            assert hvd.allreduce(value, op=hvd.Sum, process_set=pair).tolist() == [last] * 3
            assert hvd.allreduce(value, process_set=pair).tolist() == [last / 2] * 3
            assert hvd.allgather(value[:1], process_set=pair).tolist() == [0, last]
            assert hvd.broadcast(value, last, process_set=pair).tolist() == [last] * 3
            assert hvd.reducescatter(torch.ones(2), op=hvd.Sum, process_set=pair).tolist() == [2]
            output, received = hvd.alltoall(value[:2], [1, 1], process_set=pair)
            assert output.tolist() == [0, last]
            assert received.tolist() == [1, 1]
            assert hvd.broadcast_object("hello" if hvd.rank() == last else None, last, "obj", pair) == "hello"
            hvd.barrier(process_set=pair)
        else:
            with pytest.raises(ValueError):
                hvd.allreduce(value, process_set=pair)
            with pytest.raises(ValueError, match="Process is not part of provided process set."):
                pair.rank()
        hvd.barrier()
    assert pair.process_set_id is None


def test_sets_run_side_by_side_without_waiting_for_each_other() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    size, rank = hvd.size(), hvd.rank()
    halves = [[r for r in range(size) if r % 2 == parity] for parity in (0, 1)]
    with process_set(halves[0]) as even, process_set(halves[1]) as odd:
        mine, ranks = (even, halves[0]) if rank % 2 == 0 else (odd, halves[1])
        for i in range(20 if rank % 2 == 0 else 5):  # a different number of unnamed calls in each set
            result = hvd.allreduce(torch.full((4,), float(rank)), op=hvd.Sum, process_set=mine)
            assert result.tolist() == [sum(ranks)] * 4, i
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size


def test_names_of_different_sets_do_not_collide() -> None:
    everyone = list(range(hvd.size()))
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    with process_set(everyone[:-1] or everyone) as some:
        handles = [hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="same")]
        if some.included():
            handles.append(hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="same", process_set=some))
        sizes = [hvd.size(), hvd.size() - 1]
        for handle, expected in zip(handles, sizes):
            assert hvd.synchronize(handle).tolist() == [expected] * 2
        hvd.barrier()


def test_duplicates_are_refused_and_ids_are_reused() -> None:
    if hvd.size() < 3:
        pytest.skip("needs three ranks")
    with process_set([0, 1]) as first, pytest.raises(ValueError, match="exists already"):
        hvd.add_process_set([1, 0])
    assert hvd.remove_process_set(first) is False
    ids = set()
    for _ in range(6):
        with process_set([1, 2]) as again:
            ids.add(again.process_set_id)
            if again.included():
                assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=again).item() == 2
    assert len(ids) < 6


def test_init_of_a_running_engine_looks_sets_up() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    with process_set([hvd.size() - 1]) as known:
        again, unknown = hvd.ProcessSet([hvd.size() - 1]), hvd.ProcessSet([0, 77])
        with pytest.raises(ValueError, match=r"ranks=\[0, 77\]"):
            hvd.init(process_sets=[again, unknown])
        assert (again.process_set_id, unknown.process_set_id) == (None, None)
        hvd.init(process_sets=[again])
        assert again.process_set_id == known.process_set_id
        if again.included():
            assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=again).item() == 1
    assert again.process_set_id is None  # it went with the set
    with pytest.raises(ValueError, match="Invalid type of argument comm"):
        hvd.init(comm="everyone")
    hvd.init()


def test_a_set_can_be_copied() -> None:
    if hvd.size() == 1:
        pytest.skip("a lone rank has no other set than the global one")
    with process_set([0]) as known:
        copies = [copy.copy(known), copy.deepcopy(known), pickle.loads(pickle.dumps(known))]  # noqa: S301
        for entry in copies:
            assert (entry.process_set_id, entry.ranks) == (known.process_set_id, [0])
        if known.included():  # they share the numbers of unnamed operations
            handles = [hvd.allreduce_async(torch.ones(1), process_set=entry) for entry in [known, *copies]]
            assert [hvd.synchronize(handle).item() for handle in handles] == [1] * 4


def test_arguments() -> None:
    for wrong in (5, "01", ["a"], None):
        with pytest.raises(ValueError, match="ProcessSet should be initialized with a list of process ranks"):
            hvd.ProcessSet(wrong)
    with pytest.raises(ValueError, match=r"ranks \[\] cannot be added: a set needs at least one rank"):
        hvd.add_process_set([])
    unregistered = hvd.ProcessSet([0])
    assert unregistered.size() is None
    assert unregistered.rank() is None
    with pytest.raises(ValueError):
        hvd.allreduce(torch.ones(1), process_set=unregistered)
    assert "ranks=[0]" in str(unregistered)
