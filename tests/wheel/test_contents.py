"""What the wheel asks of a machine: a processor, a glibc, a Python, and nothing else."""

from __future__ import annotations

import configparser
import email
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import BUILT

GLIBC = (2, 28)
# The parts of glibc. Everything else is inside, or opened at run time by whoever asks for it.
LIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1"}  # fmt: skip
PLUGINS = {"shm", "tcp", "gloo", "mpi", "ucx", "verbs", "nccl", "cuda", "loop"}
MOST_BYTES = 15_000_000


@pytest.fixture(scope="session")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # noqa: S202 (made by this project)
    return folder


def elf_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]


def readelf(what: str, file: Path) -> str:
    return subprocess.run(["readelf", "-W", what, str(file)], capture_output=True, text=True, check=True).stdout


def test_one_wheel_is_for_every_python_from_3_9_on(wheel: Path) -> None:
    interpreter, abi, platforms = wheel.stem.split("-")[2:]
    assert (interpreter, abi) == ("cp39", "abi3")
    versions = re.findall(r"manylinux_(\d+)_(\d+)_(?:x86_64|aarch64)", platforms)
    assert versions
    assert all((int(major), int(minor)) <= GLIBC for major, minor in versions)


def test_metadata(unpacked: Path) -> None:
    [file] = unpacked.glob("*.dist-info/METADATA")
    metadata = email.message_from_string(file.read_text())
    assert metadata["Name"] == "roda-horovod"
    assert metadata["Author"]
    assert metadata["Requires-Python"] == ">=3.9"
    classifiers = {f"Programming Language :: Python :: 3.{minor}" for minor in range(9, 14)}
    assert classifiers | {"Typing :: Typed"} <= set(metadata.get_all("Classifier", []))
    assert {"torch", "pytorch", "tensorflow-cpu", "mpi"} <= set(metadata.get_all("Provides-Extra", []))
    description = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)]*)\)", description)
    assert description.startswith("# Roda\n")
    assert metadata.get_all("Project-URL")
    assert all("://" in link for link in links), f"whoever reads this has no repository: {links}"


def test_the_name_horovod_lies_beside(wheel: Path) -> None:
    if wheel.parent != BUILT:
        pytest.skip("only where tools/build_wheels.sh puts both")
    [name] = BUILT.glob("horovod-*.whl")
    with zipfile.ZipFile(name) as archive:
        assert {file.split("/")[0].rpartition(".")[2] for file in archive.namelist()} == {"dist-info"}
        [file] = [file for file in archive.namelist() if file.endswith("/METADATA")]
        metadata = email.message_from_bytes(archive.read(file))
    version = wheel.stem.split("-")[1]
    assert metadata["Version"].endswith(f"+roda.{version}")
    assert f"roda-horovod=={version}" in metadata.get_all("Requires-Dist", [])


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES


def test_symbols_are_no_newer_than_its_glibc(unpacked: Path) -> None:
    files = elf_files(unpacked)
    assert len(files) > len(PLUGINS)
    for file in files:
        wanted = set(re.findall(r"Name: (\w+_[\d.]+)\s", readelf("--version-info", file)))
        assert wanted, file
        for name in wanted:
            library, _, version = name.partition("_")
            assert library == "GLIBC", f"{file.name} needs {name}"
            assert tuple(map(int, version.split("."))) <= GLIBC, f"{file.name} needs {name}"


def test_it_loads_nothing_but_the_c_library_and_itself(unpacked: Path) -> None:
    for file in elf_files(unpacked):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", file)))
        assert needed <= LIBC | {"libroda.so"}, file


def test_every_transport_is_inside(unpacked: Path) -> None:
    folder = unpacked / "horovod" / "lib" / "roda" / "plugins"
    assert {path.stem.removeprefix("roda_") for path in folder.iterdir()} == PLUGINS


def test_headers_for_plugins_are_inside(unpacked: Path) -> None:
    assert {"types.h", "transport.hpp"} <= {path.name for path in unpacked.rglob("roda/*/*.h*")}


def test_types_are_inside(unpacked: Path) -> None:
    assert {"py.typed", "_roda.pyi"} <= {path.name for path in (unpacked / "horovod").iterdir()}


def test_manual_pages_and_completion_are_inside(unpacked: Path) -> None:
    [share] = unpacked.glob("*.data/data/share")
    entries = configparser.ConfigParser()
    entries.read(unpacked.glob("*.dist-info/entry_points.txt"))
    programs = set(entries["console_scripts"])
    assert "horovodrun" in programs
    assert {path.stem for path in (share / "man" / "man1").iterdir()} == programs
    assert {path.name for path in (share / "bash-completion" / "completions").iterdir()} == programs


def test_licenses_of_what_is_compiled_in_are_inside(unpacked: Path) -> None:
    [text] = [path.read_text() for path in unpacked.glob("*.dist-info/licenses/THIRD_PARTY")]
    for part in ("cli11", "fmt", "nlohmann", "mbedtls", "gloo", "libc++"):
        assert part in text.lower()
