"""Pods on one machine: containers of a manifest, each on a host of its own (network.py).

A pod's root is this machine's with files laid over it, where its manifest mounts them; what it writes there is lost
with it. It has its manifest's variables and no others, a host name, /tmp and /dev/shm. What the cluster's DNS would
tell is in its /etc/hosts. Two programs in it stand in for others and enter other pods: ``kubectl`` and ``ssh``. It runs
as root, and without limits.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import LIMIT
from network import Network

ROOT = Path(__file__).parents[2]
_NO_OVERLAY = 77  # status of a container whose root can't be made

# Called with the pod's name, the folder of what lies over the root, the size of /dev/shm, a file for the number of the
# process when it begins, `place=target` for each folder that is mounted as it is, `--` and a command.
_CONTAINER = f"""
set -e
hostname "$1"
layer=$2 size=$3 begun=$4
shift 4
cd /dev/shm
cp -r "$layer" changes
mkdir work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/changes,workdir=$PWD/work" root || exit {_NO_OVERLAY}
while [ "$1" != -- ]; do
  mkdir -p "root${{1#*=}}"
  mount --rbind "${{1%=*}}" "root${{1#*=}}"
  shift
done
shift
mount -t tmpfs -o "size=$size" shm root/dev/shm
echo $$ >"$begun"
exec chroot root "$@"
"""
# What runs a command in a pod: /pods/LABEL/NAME.
_ENTER = """#!/bin/sh
exec nsenter --target {pid} --net --mount --uts --root env -i -C /train {variables} "$@"
"""
_KUBECTL = """#!/bin/sh
case $1 in
get) # pods -l LABEL --field-selector=… -o go-template=TEMPLATE
  [ "$5" = --field-selector=status.phase=Running ] || exit 1
  slots=$(printf %s "$7" | sed -n 's/.*{{.metadata.name}}\\(:[0-9]*\\){{.*/\\1/p')
  for pod in /pods/"$4"/*; do echo "${pod##*/}$slots"; done ;;
exec) # [-i] POD -- COMMAND …
  if [ "$2" = -i ]; then shift; else exec </dev/null; fi
  pod=$2
  shift 3
  exec /pods/*/"$pod" "$@" ;;
esac
"""
_SSH = """#!/bin/sh
host=
while :; do
  case $1 in
  -[iop]) shift 2 ;;
  --) shift ;;
  *) [ -z "$host" ] || break; host=$1; shift ;;
  esac
done
getent hosts "$host" >/dev/null || { echo "ssh: Could not resolve hostname $host" >&2; exit 255; }
exec /pods/*/"${host%%.*}" sh -c "cd / && $*"
"""


class Pods:
    """The pods of one manifest; a context manager that ends them.

    Parameters
    ----------
    network : Network
        Whose hosts the pods get, in their order.
    folder : Path
        An empty one.
    manifest : Path
        For its ConfigMaps.
    names : mapping
        Of all pods that there may be, the name in DNS: empty where it has none.
    job : sequence of str
        What ``python train.py`` runs: a program of these tests, and its arguments.
    """

    def __init__(
        self, network: Network, folder: Path, manifest: Path, names: Mapping[str, str], job: Sequence[str]
    ) -> None:
        self._network, self.folder = network, folder
        self._hosts = dict(zip(names, network.hosts))
        self._resolved = "".join(f"{self._hosts[name].address} {known}\n" for name, known in names.items() if known)
        self.documents = list(yaml.safe_load_all(manifest.read_text()))
        self._job = [sys.executable, *job]
        self._running: dict[str, subprocess.Popen[str]] = {}
        for name in ("told", "pods", "layers"):
            (folder / name).mkdir()

    def __enter__(self) -> Pods:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.delete(name)

    def one(self, kind: str) -> dict[str, Any]:
        """Return the manifest's document of a kind."""
        (found,) = (each for each in self.documents if each["kind"] == kind)
        return found

    def start(
        self, name: str, pod: Mapping[str, Any], files: Mapping[str, str] | None = None, **variables: str
    ) -> subprocess.Popen[str]:
        """Start a pod's container.

        Parameters
        ----------
        name : str
            The pod's.
        pod : mapping
            Its template.
        files : mapping, optional
            What its controller mounts: text by path.
        **variables : str
            What its controller adds to the environment.
        """
        (container,) = pod["spec"]["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}
        given = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "HOSTNAME": name,
            "KUBERNETES_SERVICE_HOST": "10.96.0.1", "TELL_FOLDER": "/told", "OMP_NUM_THREADS": "1",
            **{each["name"]: each["value"] for each in container.get("env", ())}, **variables,
        }  # fmt: skip
        words = [f"{key}={value}" for key, value in given.items()]
        inside = ["env", "-i", "-C", "/train", *words, *container["command"]]
        shown = [f"{place}={place}" for place in ("/proc", "/sys", "/dev", "/run", ROOT, sys.prefix)]
        shown += [f"{self.folder / place}=/{place}" for place in ("told", "pods")]
        layer, begun = self.folder / "layers" / name, self.folder / f"{name}.begun"
        self._lay(layer, name, pod, mounts, files or {})
        size = "50%" if "/dev/shm" in mounts.values() else "64m"  # noqa: S108
        command = ["sh", "-c", _CONTAINER, "sh", name, str(layer), size, str(begun), *shown, "--", *inside]
        with self._output(name).open("w") as output:
            process = self._running[name] = subprocess.Popen(
                self._network.command(self._hosts[name], command), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        while not (begun.exists() and begun.read_text()):
            if process.poll() is not None:
                (pytest.skip if process.returncode == _NO_OVERLAY else pytest.fail)(f"no container: {self.said(name)}")
            time.sleep(0.01)
        labels = ",".join(f"{key}={value}" for key, value in pod.get("metadata", {}).get("labels", {}).items())
        entry = self.folder / "pods" / (labels or "none") / name
        entry.parent.mkdir(exist_ok=True)
        (self.folder / "entry").write_text(_ENTER.format(pid=begun.read_text().strip(), variables=shlex.join(words)))
        (self.folder / "entry").chmod(0o755)
        (self.folder / "entry").rename(entry)
        return process

    def _lay(
        self, layer: Path, name: str, pod: Mapping[str, Any], mounts: Mapping[str, str], files: Mapping[str, str]
    ) -> None:
        """Write what lies over the root: the image's own files, and what is mounted."""
        maps = {each["metadata"]["name"]: each["data"] for each in self.documents if each.get("kind") == "ConfigMap"}
        known = f"127.0.0.1 localhost\n{self._hosts[name].address} {name}\n{self._resolved}"
        laid = {"/etc/hosts": known, "/usr/local/bin/kubectl": _KUBECTL, "/usr/local/bin/ssh": _SSH, **files}
        laid["/train/train.py"] = f"import os\nos.execv({self._job[0]!r}, {self._job!r})\n"
        for volume in pod["spec"].get("volumes", ()):
            if "configMap" in volume:
                place = mounts[volume["name"]]
                laid |= {f"{place}/{key}": text for key, text in maps[volume["configMap"]["name"]].items()}
        for path, text in laid.items():
            file = layer / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)

    def _output(self, name: str) -> Path:
        return self.folder / f"{name}.output"

    def said(self, name: str) -> str:
        """Return what a pod printed."""
        return self._output(name).read_text()

    def is_running(self, name: str) -> bool:
        """Tell whether a pod's command goes on."""
        return self._running[name].poll() is None

    def delete(self, name: str) -> None:
        """End a pod: its processes are killed, and kubectl doesn't know it any more."""
        for entry in (self.folder / "pods").glob(f"*/{name}"):
            entry.unlink()
        self._network.kill_all(self._hosts[name])
        self._running.pop(name).wait()

    def finish(self, *names: str) -> None:
        """Wait until pods end well."""
        for name in names:
            assert self._running[name].wait(LIMIT) == 0, "\n".join(map(self.said, names))

    def fail(self, name: str) -> str:
        """Wait until a pod ends, which must be a failure; return what it printed."""
        assert self._running[name].wait(LIMIT) != 0, self.said(name)
        return self.said(name)

    def told(self) -> list[str]:
        """Return what the ranks told."""
        return sorted(line for path in (self.folder / "told").iterdir() for line in path.read_text().splitlines())
