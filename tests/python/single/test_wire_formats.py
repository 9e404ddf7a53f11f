"""``Compression.int8`` and its like: messages between hosts in a wire format, which one operation asks for."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from conftest import Launch
from horovod import _roda
from horovod.common.compression import NoneCompressor, WireCompression, wire_format_of

# Ranks that are told that each is on a host of its own.
ON_TWO_HOSTS = (
    "HOROVOD_HOSTNAME=host$HOROVOD_RANK HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=1 HOROVOD_CROSS_RANK=$HOROVOD_RANK "
    'HOROVOD_CROSS_SIZE=2 exec "$0" "$@"'
)
FORMATS = {"int8": "int8", "int4": "int4", "fp8": "fp8", "bf16_wire": "bf16"}


def test_compressors_have_the_formats_names() -> None:
    assert {name for name in vars(WireCompression) if not name.startswith("_")} == set(FORMATS)
    for name, wire_format in FORMATS.items():
        compressor = getattr(WireCompression, name)
        assert _roda.wire_format_names()[wire_format_of(compressor)] == wire_format
        assert compressor.compress(name) == (name, None)
        assert compressor.decompress(name, None) is name
    assert _roda.wire_format_names()[wire_format_of(NoneCompressor)] == "none"
    assert wire_format_of(object()) == 0


@pytest.mark.parametrize("other", ["int8", NoneCompressor])
def test_a_hook_takes_formats_alone(other: object) -> None:
    distributed = pytest.importorskip("horovod.torch.distributed")
    for taker in distributed.wire_format_hook, distributed.WireFormatReduceScatter:
        with pytest.raises(TypeError, match="Compression.int8, int4, fp8 or bf16_wire"):
            taker(other)


def test_a_master_copy_follows_what_others_write_and_goes_with_float32() -> None:
    torch = pytest.importorskip("torch")
    from horovod.torch._shard import Shard

    parameter = torch.nn.Parameter(torch.zeros(4))
    shard = Shard(parameter, "p", 0, 2, keeps_master=True)
    assert shard.update()[1] is False  # the ranks have not seen each other's yet
    shard.take(torch.zeros(4), False)
    shard.part.data += 1.0
    update, is_difference = shard.update()
    assert (update.tolist(), is_difference) == ([1.0, 1.0], True)
    shard.take(torch.full((4,), 0.75), True)
    assert (parameter.tolist(), shard.update()[0].tolist()) == ([0.75] * 4, [0.25] * 2)
    with torch.no_grad():
        parameter[0] = 7.0
    assert shard.refreshed().tolist() == [7.0, 1.0]
    parameter.data = parameter.data.half()
    assert shard.refreshed().data_ptr() == parameter.data_ptr()
    assert shard.update()[1] is False


@pytest.mark.parametrize("front", ["torch", "tensorflow", "jax", "mxnet"])
def test_each_front_has_them(front: str, horovodrun: Launch) -> None:
    if importlib.util.find_spec(front) is None:
        pytest.skip(f"there is no {front}")
    job = Path(__file__).with_name("wire_formats_job.py")
    done = horovodrun("-np", "2", "sh", "-c", ON_TWO_HOSTS, sys.executable, str(job), front)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(f"{front} is right") == 2, done.stdout
