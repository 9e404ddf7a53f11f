"""What the Dockerfile names is there; tests/wheel builds an image of it."""

import fnmatch
import json
import re
import shlex
import shutil
import subprocess

import arrows
import pytest

tomllib = pytest.importorskip("tomllib")
PROJECT = tomllib.loads((arrows.ROOT / "pyproject.toml").read_text())["project"]
SETUP = (arrows.ROOT / "tools" / "lib" / "setup.sh").read_text()


def instructions():
    """Pairs of a word and what follows it."""
    text = (arrows.ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def named(word):
    return [rest for each, rest in instructions() if each == word]


def argument(name):
    """The value that a build argument has unless another one is given."""
    (value,) = [shlex.split(rest.partition("=")[2])[0] for rest in named("ARG") if rest.startswith(f"{name}=")]
    return value


def commands():
    """Commands of all RUN lines, as lists of words."""
    return [shlex.split(line) for rest in named("RUN") for line in re.split(r"&&|\|\||;", rest)]


def packages(words):
    return [word for word in words[words.index("install") + 1 :] if not word.startswith("-")]


def reaches_builder(path):
    """Whether .dockerignore lets a file through: the last pattern that fits it, or a folder above it, decides."""
    let_through = True
    for pattern in (arrows.ROOT / ".dockerignore").read_text().split():
        above = [path, *map(str, list(arrows.Path(path).parents)[:-1])]
        if any(fnmatch.fnmatch(each, pattern.removeprefix("!")) for each in above):
            let_through = pattern.startswith("!")
    return let_through


def test_what_is_copied_is_there():
    wheel = f"build/wheels/dist/roda_horovod-{PROJECT['version']}-cp39-abi3-manylinux_2_28_x86_64.whl"
    for rest in named("COPY"):
        *sources, _ = rest.split()
        for source in sources:
            if fnmatch.fnmatch(wheel, source):
                assert "build/wheels/dist" in (arrows.ROOT / "tools" / "build_wheels.sh").read_text()
                assert reaches_builder(wheel)
                continue
            found = [path.relative_to(arrows.ROOT).as_posix() for path in arrows.ROOT.glob(source)]
            assert found, source
            assert all(map(reaches_builder, found)), found
    assert not reaches_builder("core/engine/engine.h")


def test_what_was_copied_is_what_commands_name():
    ((source, folder),) = [rest.split() for rest in named("COPY") if ".whl" in rest]
    wheel = folder + source.rpartition("/")[2]
    commands = " ".join(named("RUN")).replace("$(uname -m)", "")  # the one for the processor of the image
    assert set(re.findall(rf"{folder}[\w*.-]+", commands)) == {wheel}


def test_packages_of_python_are_known():
    (words,) = [words for words in commands() if words[:2] == ["pip", "install"]]
    assert packages(words) == ["${PACKAGES}", "$(ls /tmp/roda_horovod-*$(uname -m).whl)[${EXTRAS}]"]
    ours = re.search(r"^WHEEL_PYTHON_PACKAGES=\((.*)\)$", SETUP, re.MULTILINE)[1].split()
    assert set(argument("PACKAGES").split()) <= set(ours)
    assert set(argument("EXTRAS").split(",")) <= set(PROJECT["optional-dependencies"])
    oldest = PROJECT["requires-python"].removeprefix(">=3.")
    assert int(re.fullmatch(r"python:3\.(\d+)-slim", argument("BASE"))[1]) >= int(oldest)


def test_packages_of_debian_are_known():
    if shutil.which("apt-cache") is None:
        pytest.skip("apt-cache is not installed")
    names = [name for words in commands() if words[:2] == ["apt-get", "install"] for name in packages(words)]
    assert names
    for name in ["bash", *names]:
        done = subprocess.run(["apt-cache", "show", "--no-all-versions", name], capture_output=True, check=False)
        if name == "bash" and done.returncode != 0:
            pytest.skip("apt-get update was never run here")
        assert done.returncode == 0, name


def test_the_user_and_what_is_run_are_there():
    (user,) = named("USER")
    assert ["useradd", "--create-home", user] in commands()
    assert named("WORKDIR") == [f"/home/{user}"]
    (command,) = named("CMD")
    assert json.loads(command)[0] in PROJECT["scripts"]
