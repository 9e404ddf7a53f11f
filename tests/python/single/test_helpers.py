from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest
from horovod.common import util
from horovod.common.exceptions import (
    HorovodInternalError,
    HorovodVersionMismatchError,
    HostsUpdatedInterrupt,
    get_version_mismatch_message,
)
from horovod.runner.common.util.codec import dumps_base64, loads_base64
from horovod.runner.common.util.timeout import Timeout, TimeoutException


def test_split_list() -> None:
    assert util.split_list([1, 2, 3, 4, 5], 2) == [[1, 2, 3], [4, 5]]
    assert util.split_list([1], 3) == [[1], [], []]
    for length in range(20):
        for parts in range(1, 8):
            chunks = util.split_list(list(range(length)), parts)
            assert [x for chunk in chunks for x in chunk] == list(range(length))
            assert max(map(len, chunks)) - min(map(len, chunks)) <= 1


def test_split_list_takes_its_arguments_by_name() -> None:
    assert util.split_list(l=(1, 2, 3), n=2) == [[1, 2], [3]]


def test_average_is_the_older_spelling_of_op() -> None:
    class Reductions:
        Average, Sum = "mean", "total"

    reduction = util.get_average_backwards_compatibility_fun(Reductions)
    assert (reduction(None, None), reduction("least", None)) == ("mean", "least")
    with pytest.warns(DeprecationWarning):
        assert (reduction(None, True), reduction(None, False)) == ("mean", "total")
    with pytest.raises(ValueError, match="supersedes average"):
        reduction("least", True)


def test_names_that_other_code_takes_from_mpi_ops() -> None:
    code = """
import horovod.torch as hvd
from horovod.torch import mpi_ops
assert mpi_ops.mpi_lib is mpi_ops.mpi_lib_v2 is hvd.mpi_lib_v2
assert mpi_ops.add_process_set is hvd.add_process_set and mpi_ops.remove_process_set is hvd.remove_process_set
assert mpi_ops.HorovodInternalError is hvd.HorovodInternalError
assert mpi_ops.num_rank_is_power_2(4) and not mpi_ops.num_rank_is_power_2(3)
assert mpi_ops.gpu_available("torch") in (True, False)
mpi_ops.check_installed_version("pytorch", "2.0.0")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_powers_of_two() -> None:
    assert [n for n in range(0, 65) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8, 16, 32, 64]


def test_env_restores() -> None:
    os.environ["RODA_TEST_A"] = "before"
    with util.env(RODA_TEST_A="inside", RODA_TEST_B="new", RODA_TEST_C=None):
        assert os.environ["RODA_TEST_A"] == "inside"
        assert os.environ["RODA_TEST_B"] == "new"
        assert "RODA_TEST_C" not in os.environ
    assert os.environ.pop("RODA_TEST_A") == "before"
    assert "RODA_TEST_B" not in os.environ


def test_versions() -> None:
    assert util.is_version_greater_equal_than("1.10.0", "1.9.9")
    assert not util.is_version_greater_equal_than("1.2.3", "1.2.4")
    with pytest.raises(ValueError):
        util.is_version_greater_equal_than("1.2", "1.2.0")
    versions = [SimpleNamespace(__version__=version) for version in ("2.10.1", "2.11.0", "3.0.0")]
    assert [util.support_non_legacy_keras_optimizers(each) for each in versions] == [False, True, True]


def test_extensions_are_there() -> None:
    for name in util.EXTENSIONS:
        util.check_extension(f"horovod.{name}", f"HOROVOD_WITH_{name.upper()}", __file__, "mpi_lib")
    assert Path(util.get_extension_full_path(__file__, "mpi_lib")).is_file()


def test_exceptions() -> None:
    assert issubclass(HorovodInternalError, RuntimeError)
    assert HostsUpdatedInterrupt(True).skip_sync is True
    error = HorovodVersionMismatchError("torch", "1", "2")
    assert isinstance(error, ImportError)
    assert (error.name, error.version, error.installed_version) == ("torch", "1", "2")
    assert str(error) == get_version_mismatch_message("torch", "1", "2")


def test_codec() -> None:
    assert loads_base64(dumps_base64({"a": (1, None)})) == {"a": (1, None)}


def test_timeout() -> None:
    Timeout(60, "{activity}").check_time_out_for("nothing")
    assert f"{1 + Timeout(60, ''):g}" == "61"  # a number wherever seconds are wanted
    assert cloudpickle.loads(cloudpickle.dumps(Timeout(60, ""))).remaining() > 0
    with pytest.raises(TimeoutException, match="waiting for godot took 0"):
        Timeout(0, "{activity} took {timeout}").check_time_out_for("waiting for godot")


def test_importing_the_package_or_its_launcher_imports_no_framework() -> None:
    """Nor anything of the folder that only Horovod's internals need."""
    code = (
        "import horovod, horovod.runner.launch, horovod.common.basics, sys;"
        "assert not {'torch', 'tensorflow', 'jax', 'mxnet', 'horovod.runner.compat'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_process_without_a_launcher_is_a_job_of_one() -> None:
    code = (
        "import horovod.torch as hvd, torch;"
        "hvd.init();"
        "assert (hvd.rank(), hvd.size()) == (0, 1);"
        "assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [1, 1, 1];"
        "assert hvd.allgather(torch.ones(3)).shape == (3,)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HOROVOD_")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=clean)


def test_questions_before_init() -> None:
    code = """
import horovod.torch as hvd
numbers = (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size)
for question in (*numbers, hvd.is_homogeneous):
    try:
        question()
    except ValueError as error:
        assert str(error) == "Horovod has not been initialized; use hvd.init().", error
    else:
        raise AssertionError(question)
import torch
for call in (hvd.allreduce, lambda t, op: hvd.grouped_allreduce([t], op=op)):
    try:
        call(torch.ones(1), op=hvd.Adasum)
    except ValueError as error:
        assert "has not been initialized" in str(error), error
    else:
        raise AssertionError(call)
assert not hvd.is_initialized()
for question in (hvd.mpi_built, hvd.gloo_built, hvd.ddl_built, hvd.ccl_built, hvd.cuda_built, hvd.rocm_built):
    assert question() in (True, False)
assert hvd.nccl_built() >= 0
assert (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product) == (0, 1, 2, 3, 4, 5)
hvd.shutdown()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
