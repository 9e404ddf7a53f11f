"""The installed software: the engine and its transports, frameworks with their bindings, MPI."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import horovod
from horovod.child import Ended, run
from horovod.common.util import packages_of
from horovod.doctor.finding import ABSENT, BROKEN, OK, WARNING, Finding, install_line, pip_line
from horovod.doctor.loader import explain
from horovod.places import users_folder
from horovod.runner.mpi_run import implementation_in

_installed = partial(Finding, "Installation")
_transport = partial(Finding, "Transports")
_framework = partial(Finding, "Frameworks")
_mpi = partial(Finding, "MPI")

# In the order in which they are looked for: module, the distribution that pip installs, the binding.
_FRAMEWORKS = (
    ("torch", "torch", "horovod.torch"),
    ("tensorflow", "tensorflow", "horovod.tensorflow"),
    ("keras", "keras", "horovod.keras"),
    ("jax", "jax", "horovod.jax"),
    ("mxnet", "mxnet", "horovod.mxnet"),
    ("pyspark", "pyspark", "horovod.spark"),
    ("ray", "ray", "horovod.ray"),
)
FRAMEWORKS = tuple(module for module, *_ in _FRAMEWORKS)
# Names of files of the libraries whose version matters to a job.
_LIBRARIES = (
    "libroda",
    "libc.so",
    "ld-musl",
    "libstdc++",
    "libgloo",
    "libmpi",
    "libucp",
    "libibverbs",
    "libnccl",
    "libcuda",
)
# In a process of its own: a library that crashes or hangs as it is opened is to be told of, and not to be died of.
_ASK = """
import contextlib, json, sys
if sys.argv[1] == "with-torch":  # it brings NCCL along
    with contextlib.suppress(ImportError):
        import torch
import horovod._roda as _roda  # not `from horovod`, which explains what the loader says
answer = {"version": _roda.version(), "engine": _roda.__file__, **json.loads(_roda.describe_plugins(True)),
          "topology": json.loads(_roda.describe_topology(True))}
with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
    answer["files"] = sorted({line.split(None, 5)[5].strip() for line in maps if "/" in line})
print("\\n" + json.dumps(answer))
"""


def ask_engine(with_torch: bool) -> tuple[Mapping[str, Any], Finding]:
    """Load the engine, and return what it says of its plugins and of this machine, and what there is to tell of it.

    Parameters
    ----------
    with_torch : bool
        Import PyTorch first, where it is installed.
    """
    ended = run([sys.executable, "-c", _ASK, "with-torch" if with_torch else "alone"], limit=90)
    if ended.status == 0:
        answer = json.loads(ended.stdout.splitlines()[-1])
        found = _installed("engine", OK, f"Roda {answer['version']}", path=answer["engine"])
        return answer, found
    text, mend = explain(ended.why)
    return {}, _installed("engine", BROKEN, f"can't be loaded: {text}", mend)


def installation(answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Tell which engine this is, and which libraries it has loaded."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield _installed("Python", OK, f"{version}, {sys.implementation.name}", path=sys.executable)
    versions = f"horovod {horovod.__version__}, Roda {horovod.roda_version}"
    yield _installed("package", OK, versions, path=str(Path(horovod.__file__).parent))
    if "error" in answer.get("topology", {}):
        mend = "correct or unset the variable that it names; `roda-info --env` lists them"
        yield _installed("settings", BROKEN, answer["topology"]["error"], mend)
    for other in metadata.distributions(name="horovod"):
        if "roda" not in (other.version or ""):
            text = (
                f"Horovod {other.version} itself is installed too: the folder that comes first in sys.path is imported"
            )
            yield _installed("horovod", WARNING, text, "pip uninstall -y horovod", str(other.locate_file("")))
    for file in answer.get("files", []):
        name = Path(file).name
        if name.startswith(_LIBRARIES) and ".so" in name:
            yield _installed(name.partition(".so")[0], OK, Path(os.path.realpath(file)).name, path=file)


def _lacks(name: str, has_rdma: bool, has_gpu: bool) -> str:
    """Return the device that a plugin is for and this machine does not have."""
    if name == "verbs" and not has_rdma:
        return "InfiniBand or RoCE device"
    return "NVIDIA GPU" if name in ("nccl", "cuda") and not has_gpu else ""


def _how_to_open(name: str, reason: str) -> str:
    """Return the line that makes a plugin usable that gave this reason; empty when no line does."""
    lines = {
        "mpi": install_line("openmpi-bin", "openmpi") + "   (or load your site's module: module load openmpi)",
        "ucx": install_line("libucx0", "ucx") + f"   (or: {pip_line('libucx-cu12')})",
        "gloo": install_line("libgloo0", "gloo"),
        "verbs": install_line("libibverbs1 ibverbs-providers", "libibverbs"),
        "nccl": pip_line("nvidia-nccl-cu12") + "   (then RODA_NCCL_LIBRARY names its libnccl.so.2)",
        "cuda": "install NVIDIA's driver, then: nvidia-smi",
    }
    if "ulimit -n" in reason:
        return "ulimit -n 65536"
    if name == "mpi" and shutil.which("mpicxx"):  # it is there, under another name or in another folder
        return "roda-build-plugin mpi"
    is_missing = "cannot open shared object file" in reason or "opened" in reason
    return lines.get(name, "") if is_missing else ""


def transports(answer: Mapping[str, Any], has_rdma: bool, has_gpu: bool) -> Iterator[Finding]:
    """Tell every plugin, usable or not; the one for tests is left out."""
    if not answer:
        return
    records = {record["name"]: record for record in reversed(answer["plugins"]) if record["name"] != "loop"}
    for name, record in sorted(records.items(), key=lambda item: (not item[1]["usable"], item[0])):
        path, description = record["path"], record["description"]
        if record["usable"]:
            yield _transport(name, OK, description or f"{record['kind']} plugin", path=path)
            continue
        text, lacks = record["reason"], _lacks(name, has_rdma, has_gpu)
        if path.startswith(str(users_folder())):
            mend = f"roda-build-plugin {name}   (or rm {path}: an installed plugin may be behind it)"
            yield _transport(name, BROKEN, text, mend, path)
        elif lacks:
            yield _transport(name, ABSENT, f"{text}. Nothing to mend: this machine has no {lacks}", path=path)
        else:
            yield _transport(name, ABSENT, text, _how_to_open(name, text), path)
    for name in ("gloo", "mpi", "ucx"):
        if name not in records:
            yield _transport(name, ABSENT, "this installation was built without it", f"roda-build-plugin {name}")


def _version_of(distribution: str, module: str) -> str:
    for name in (distribution, f"{distribution}-cpu", f"{distribution}-gpu", f"tf-nightly-{module}", "tf-nightly"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "of an unknown version"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _how_to_import(module: str, distribution: str, why: str) -> str:
    """Return the line that makes an installed framework's binding importable."""
    absent = re.search(r"No module named '(\w+)'", why)
    if absent is None or absent[1] == module:
        return pip_line(distribution, "--force-reinstall")
    others = [name for name in ("torch", "jax", "tensorflow") if _is_there(name)]
    if module == "keras" and others:  # it computes with one of these, by default with TensorFlow
        return f"export KERAS_BACKEND={others[0]}"
    return pip_line(absent[1])


def frameworks(has_engine: bool) -> Iterator[Finding]:
    """Tell the frameworks that are installed, and whether their bindings can be imported.

    Parameters
    ----------
    has_engine : bool
        The engine can be loaded, without which no binding works.
    """
    for module, distribution, binding in _FRAMEWORKS:
        if not _is_there(module):
            yield _framework(module, ABSENT, "is not installed", pip_line(packages_of(module)))
            continue
        version = _version_of(distribution, module)
        if not has_engine:
            text = f"{version}; {binding} needs the engine, which can't be loaded (above)"
            yield _framework(module, BROKEN, text)
            continue
        ended = run([sys.executable, "-c", f"import {binding}"], limit=90)
        if ended.status == 0:
            spec = importlib.util.find_spec(module)
            yield _framework(module, OK, f"{version}, {binding} works", path=(spec and spec.origin) or "")
        else:
            mend = _how_to_import(module, distribution, ended.why)
            yield _framework(module, BROKEN, f"{version}: import {binding} fails: {ended.why}", mend)


def launchers_of_mpi(path: str) -> list[str]:
    """Return every different ``mpirun`` and ``mpiexec`` of a search path, in its order."""
    found: dict[str, str] = {}
    for folder in path.split(os.pathsep):
        for name in ("mpirun", "mpiexec"):
            program = shutil.which(name, path=folder) if folder else None
            if program:
                found.setdefault(os.path.realpath(program), program)
    return list(found.values())


def mpi(path: str) -> Iterator[Finding]:
    """Tell the MPIs whose launchers a search path has."""
    kinds: dict[str, str] = {}
    answers = {program: run([program, "--version"], limit=10) for program in launchers_of_mpi(path)}

    def kind_of(ended: Ended) -> str | None:
        return implementation_in(ended.stdout + ended.stderr) if ended.status == 0 else None

    works = next((program for program, ended in answers.items() if kind_of(ended)), "")
    for program, ended in answers.items():
        output, kind = ended.stdout + ended.stderr, kind_of(ended)
        if kind is None:
            why = f"its --version fails: {ended.why}" if ended.status != 0 else "it does not say which MPI it is"
            mend = f"take {Path(program).parent} out of PATH"
            mend += f": {works} works" if works else f", or {install_line('openmpi-bin', 'openmpi')}"
            yield _mpi(Path(program).name, BROKEN, why, mend, program)
            continue
        version = next((line.strip() for line in output.splitlines() if re.search(r"\d+\.\d+", line)), kind)
        yield _mpi(Path(program).name, OK, f"{kind}: {' '.join(version.split())}", path=program)
        number = re.search(r"\d+\.\d[\w.]*", version)
        kinds.setdefault(f"{kind} {number[0]}" if number else kind, program)
    if len(kinds) > 1:
        text = "two different MPIs are in PATH: " + ", ".join(f"{kind} ({program})" for kind, program in kinds.items())
        first, other = list(kinds.values())[:2]
        mend = f"nothing if you mean {first}, which comes first; else: export PATH={Path(other).parent}:$PATH"
        text += ". A program built for one does not run under the other's mpirun"
        yield _mpi("two MPIs", WARNING, text, mend)
    if not answers:
        text = "no mpirun in PATH; only `horovodrun --mpi` and jobs over MPI need one"
        yield _mpi("mpirun", ABSENT, text, install_line("openmpi-bin", "openmpi"))


def asked_by(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the transports that variables of the environment ask for."""
    names = []
    for variable in ("HOROVOD_CPU_OPERATIONS", "HOROVOD_GPU_OPERATIONS", "HOROVOD_CONTROLLER"):
        value = environment.get(variable, "").lower()
        is_our_rendezvous = variable == "HOROVOD_CONTROLLER" and value == "gloo"
        names += [] if is_our_rendezvous else [name for name in value.split("+") if name]
    return list(dict.fromkeys(names))
