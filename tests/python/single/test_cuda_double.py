"""horovod.torch with tensors on GPUs, as far as it can be told without one.

CUDA and NCCL are the DOUBLES of ``tests/doubles``, and the tensors only say that they lie on a GPU: PyTorch's own CUDA
side is not there. What is shown is which addresses, devices and streams reach the engine, and what becomes of its
outputs. It proves nothing about a GPU.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import Launch

DOUBLES = Path(__file__).resolve().parents[3] / "build" / "native" / "tests" / "doubles"
CUDA = DOUBLES / "cuda" / "libroda_cuda_double.so"
NCCL = DOUBLES / "nccl" / "libroda_nccl_double.so"

pytestmark = pytest.mark.skipif(
    not CUDA.exists() or not NCCL.exists(), reason="the doubles of CUDA and NCCL are not built (suite native)"
)

PRETEND = """
import ctypes, os
import torch
import horovod.torch as hvd
from horovod.torch import _tensors

cuda = ctypes.CDLL(os.environ["RODA_TEST_CUDA_LIBRARY"])
GPU = int(os.environ["HOROVOD_LOCAL_RANK"])
assert cuda.cuInit(0) == 0
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), GPU) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0


class Stream:
    device = torch.device("cuda", GPU)
    device_index = GPU
    waited_for = []

    def __init__(self, is_default):
        handle = ctypes.c_void_p()
        if not is_default:
            assert cuda.cuStreamCreateWithPriority(ctypes.byref(handle), 1, 0) == 0
        self.cuda_stream = handle.value or 0

    def handle(self):
        return ctypes.c_void_p(self.cuda_stream or 1)

    def wait_stream(self, other):
        self.waited_for.append(other)
        event = ctypes.c_void_p()
        assert cuda.cuEventCreate(ctypes.byref(event), 2) == 0
        assert cuda.cuEventRecord(event, other.handle()) == 0
        assert cuda.cuStreamWaitEvent(self.handle(), event, 0) == 0


streams = [Stream(True), Stream(False)]
torch.cuda.current_stream = lambda device=None: streams[0]


class OnGpu(torch.Tensor):
    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)
    device = property(lambda self: torch.device("cuda", GPU))
    recorded = []

    def record_stream(self, stream):
        self.recorded.append(stream)

    def to(self, device):
        assert device == self.device
        return self


def at(address, shape, dtype=torch.float32):
    count = max(1, torch.Size(shape).numel())
    memory = (ctypes.c_char * (count * torch.empty(0, dtype=dtype).element_size())).from_address(address)
    return torch.frombuffer(memory, dtype=dtype)[: torch.Size(shape).numel()].view(shape).as_subclass(OnGpu)


def on_gpu(values):
    address, size = ctypes.c_uint64(), ctypes.c_size_t(max(1, values.numel()) * values.element_size())
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), size) == 0
    tensor = at(address.value, values.shape, values.dtype)
    host(tensor).copy_(values)
    return tensor


def host(tensor):
    for stream in streams:
        assert cuda.cuStreamSynchronize(stream.handle()) == 0
    return tensor.as_subclass(torch.Tensor)


class Managed(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64))]


def adopted(capsule):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    told = Managed.from_address(pointer(capsule, b"dltensor"))
    assert (told.kind, told.device) == (2, GPU)
    tensor = at(told.data, [told.shape[i] for i in range(told.ndim)])
    tensor.keep = capsule
    return tensor


_tensors.from_dlpack = adopted
torch.empty_like = lambda like, **_: on_gpu(torch.zeros(like.shape, dtype=like.dtype))
hvd.init()
rank, size = hvd.rank(), hvd.size()
"""


def launch(horovodrun: Launch, code: str, **variables: str) -> None:
    env = {**os.environ, "RODA_TEST_CUDA_LIBRARY": str(CUDA), "RODA_NCCL_LIBRARY": str(NCCL), **variables}
    env["RODA_CUDA_DOUBLE_DEVICES"] = "4"
    done = horovodrun("-np", "2", sys.executable, "-c", PRETEND + code, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


CALLS = """
assert hvd.cuda_built()
x = on_gpu(torch.full((3, 5), rank + 1.0))
assert hvd.allreduce_(x, op=hvd.Sum) is x
assert host(x).eq(3).all()
y = hvd.allreduce(on_gpu(torch.full((4,), 2.0 * rank)))
assert y.is_cuda and host(y).eq(1).all()
handle = hvd.broadcast_async_(z := on_gpu(torch.full((2,), float(rank))), 1)
streams[0] = streams[1]  # the caller went on to another stream
assert hvd.synchronize(handle) is z and host(z).eq(1).all()
assert len(Stream.waited_for) == 1
rows = hvd.allgather(on_gpu(torch.full((rank + 1, 2), float(rank))))
assert rows.is_cuda and host(rows)[:, 0].tolist() == [0, 1, 1]
kept = hvd.reducescatter(on_gpu(torch.ones(4, 3)), op=hvd.Sum)
assert tuple(kept.shape) == (2, 3) and host(kept).eq(2).all()
moved, splits = hvd.alltoall(on_gpu(torch.arange(4.0) + 10 * rank), torch.tensor([1, 3], dtype=torch.int32))
assert splits.tolist() == [1 + 2 * rank] * 2, splits
assert host(moved).tolist() == ([0, 10] if rank == 0 else [1, 2, 3, 11, 12, 13])
for r in hvd.grouped_allreduce([on_gpu(torch.ones(5)), on_gpu(torch.ones(7, 2))], op=hvd.Sum):
    assert host(r).eq(2).all()
assert host(hvd.allreduce_(torch.ones(3), op=hvd.Sum)).eq(2).all()  # and the host's beside them
assert OnGpu.recorded
"""


@pytest.mark.parametrize("operations", ["", "NCCL", "shm"])
def test_every_collective(horovodrun: Launch, operations: str) -> None:
    launch(horovodrun, CALLS, HOROVOD_GPU_OPERATIONS=operations)


def test_completion_on_the_stream(horovodrun: Launch) -> None:
    code = """
import threading
gate = threading.Event()
at_gate = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait())
x = on_gpu(torch.full((100,), rank + 1.0))
assert cuda.cuLaunchHostFunc(streams[0].handle(), at_gate, None) == 0
hvd.allreduce_(x, op=hvd.Sum)  # returns before the stream has come to it
gate.set()
assert host(x).eq(3).all()
hvd.shutdown()
os.environ["HOROVOD_ENABLE_ASYNC_COMPLETION"] = "0"
hvd.init()
hvd.allreduce_(x, op=hvd.Sum)
assert x.as_subclass(torch.Tensor).eq(6).all()  # there already
"""
    launch(horovodrun, code, RODA_CUDA_DOUBLE_DELAY_US="2000")


def test_a_tensor_on_a_gpu_here_and_on_the_host_there(horovodrun: Launch) -> None:
    code = """
x = on_gpu(torch.ones(3)) if rank == 0 else torch.ones(3)
try:
    hvd.allreduce_(x, name="mixed")
    raise SystemExit("no error")
except hvd.HorovodInternalError as error:
    assert "mixed" in str(error) and "device" in str(error).lower(), error
"""
    launch(horovodrun, code)
