"""mpirun's command line, for every MPI, with an mpirun that only says its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from horovod.runner import mpi_run
from horovod.runner.common.util.settings import Settings

ENVIRONMENT = {"B": "2", "A": "1", "_HOROVOD_SECRET_KEY": "x", "BASH_FUNC_f%%": "() { :; }"}


def environment(folder: Path, version: str) -> dict[str, str]:
    program = folder / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o700)
    return {"PATH": f"{folder}:/bin:/usr/bin"}


def build(folder: Path, version: str, nics: tuple[str, ...] = (), **options: object) -> str:
    folder.mkdir(exist_ok=True)
    path = environment(folder, version)
    settings = Settings(**{"num_proc": 4, "hosts": "a:2,b:2", **options})
    text = mpi_run.get_command(settings, nics, {**ENVIRONMENT, **path}, ["python", "train.py", "--name", "a b"])
    return text.replace("-x PATH ", "")


def test_open_mpi(tmp_path: Path) -> None:
    assert build(tmp_path, "mpirun (Open MPI) 4.1.4") == (
        "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 -bind-to none -map-by slot -mca pml ob1 "
        "-mca btl ^openib -x A -x B python train.py --name 'a b'"
    )
    text = build(tmp_path, "mpirun (Open MPI) 4.1.4", remote_shell="my agent", ssh_port=22)
    assert "-mca plm_rsh_agent 'my agent'" in text
    assert "plm_rsh_args" not in text
    text = build(
        tmp_path, "mpirun (Open MPI) 4.1.4", nics=("eth0", "eth1"), ssh_port=22, ssh_identity_file="key",
        output_filename="out dir", prefix_output_with_timestamp=True, extra_mpi_args="--verbose",
        binding_args="-bind-to core",
    )  # fmt: skip
    assert text == (
        "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 -bind-to core -mca pml ob1 -mca btl ^openib "
        "-mca plm_rsh_args '-p 22 -i key' -mca btl_tcp_if_include eth0,eth1 -x NCCL_SOCKET_IFNAME=eth0,eth1 "
        "--timestamp-output --output-filename 'out dir' -x A -x B --verbose python train.py --name 'a b'"
    )


def test_open_mpi_5(tmp_path: Path) -> None:
    """It takes `-bind-to` for the program to start."""
    text = build(tmp_path, "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/")
    assert " -np 4 -H a:2,b:2 --bind-to none --map-by slot -mca pml ob1 -mca btl ^openib -x A " in text
    assert "-bind-to core" in build(tmp_path, "mpirun (Open MPI) 5.0.11", binding_args="-bind-to core")


def test_many_hosts(tmp_path: Path) -> None:
    hosts = ",".join(f"h{i}:1" for i in range(64))
    text = build(tmp_path, "OpenRTE", hosts=hosts)
    assert "-mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64" in text


def test_spectrum_mpi(tmp_path: Path) -> None:
    assert "-bind-to socket -map-by socket -rank-by core -x A" in build(tmp_path, "IBM Spectrum MPI 10")
    assert "-rank-by core -tcp -x A" in build(tmp_path, "IBM Spectrum MPI 10", tcp_flag=True)


def test_mpich_and_intel(tmp_path: Path) -> None:
    assert build(tmp_path, "HYDRA build details: MPICH") == (
        "mpirun -l -np 4 -ppn 2 -hosts a,b -bind-to none -map-by slot python train.py --name 'a b'"
    )
    assert build(tmp_path, "Intel(R) MPI Library", nics=("ib0",)) == (
        "mpirun -l -np 4 -ppn 2 -hosts a,b -iface ib0 -genv NCCL_SOCKET_IFNAME ib0 python train.py --name 'a b'"
    )
    assert "-launcher ssh -launcher-exec /opt/agent " in build(tmp_path, "MPICH", remote_shell="/opt/agent")
    with pytest.raises(ValueError, match="Different slots"):
        build(tmp_path, "MPICH", hosts="a:2,b:1")
    with pytest.raises(ValueError, match="Multiple NICs"):
        build(tmp_path, "MPICH", nics=("a", "b"))


def test_no_mpi(tmp_path: Path) -> None:
    assert not mpi_run.mpi_available({"PATH": str(tmp_path)})
    assert not mpi_run.mpi_available(environment(tmp_path, "something else"))
    with pytest.raises(RuntimeError, match=r"horovod does not find an installed MPI\."):
        build(tmp_path, "something else")


def test_which_mpi(tmp_path: Path) -> None:
    assert mpi_run.is_open_mpi(environment(tmp_path, "mpirun (Open MPI) 4.1.4"))
    assert mpi_run.is_mpich(environment(tmp_path, "MPICH 4"))
    assert mpi_run.is_intel_mpi(environment(tmp_path, "Intel(R) MPI Library"))
    assert mpi_run.is_spectrum_mpi(environment(tmp_path, "IBM Spectrum MPI"))
