"""Whoever types what our texts say to pip gets our distribution, or one that is known here: `roda` is a stranger's."""

import ast
import re
import subprocess

import arrows
import pytest

# Frameworks, and what else the texts have reason to name.
KNOWN = {
    "torch", "torchvision", "tensorflow", "tensorflow-cpu", "tf-keras", "keras", "jax", "mxnet", "numpy", "ray",
    "lightning", "pytorch-lightning", "pyspark", "pandas", "pyarrow", "fsspec", "psutil", "rich", "matplotlib",
    "openmpi", "mpich", "libucx-cu12", "nvidia-nccl-cu12", "accelerate", "transformers", "setuptools", "roda-horovod",
    "debugpy",
}  # fmt: skip
TEXTS = (".py", ".md", ".sh", ".cc", ".cpp", ".h", ".toml", ".build", "Dockerfile")
PIP = re.compile(r"pip install((?: +[^\s`()|;&,\\]+)+)")
FORMER = re.compile(r"(?<![\w/-])roda(?:\[\w|[=~]=\d)|[Ii]nstall(?: the package)? roda(?![\w-])")
NAME = re.compile(r"[A-Za-z][\w.-]*(?=$|[\[<>=])")  # neither an option, nor a path, nor what is yet to be filled in


def named(text):
    """Distributions that a text has pip install, by what stands behind `pip install`."""
    words = re.sub("[\"']", "", " ".join(PIP.findall(text))).split()
    return [found[0] for found in map(NAME.match, words) if found and not found[0].endswith(".whl")]


def texts():
    listed = subprocess.run(["git", "ls-files"], cwd=arrows.ROOT, capture_output=True, text=True, check=True).stdout
    for path in listed.splitlines():
        if path.endswith(TEXTS) and not path.startswith(("tests/", "docs/notes/")) and (arrows.ROOT / path).exists():
            yield path, (arrows.ROOT / path).read_text(errors="replace")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pip install 'roda[ray]', on all nodes", ["roda"]),
        ("`pip install --no-deps roda`", ["roda"]),
        ("pip install --force-reinstall ./x.whl torch && ls", ["torch"]),
        ("pip install 'numpy<1.24' jax==0.4", ["numpy", "jax"]),
        ("pip install $VENV/x {name} ./roda_horovod-*.whl roda_horovod-1.whl", []),
    ],
)
def test_names_are_found(text, names):
    assert named(text) == names


@pytest.mark.parametrize(
    ("text", "is_former"),
    [
        ("Install roda on every worker", True),
        ("install the package roda again", True),
        ("pip install 'roda[ray]'", True),
        ("Install roda-horovod, says who installs Roda", False),
    ],
)
def test_the_former_name_is_found(text, is_former):
    assert (FORMER.search(text) is not None) == is_former


def test_texts_name_no_strangers_distribution():
    wrong = [f"{path}: {name}" for path, text in texts() for name in named(text) if name not in KNOWN]
    assert not wrong
    former = [path for path, text in texts() if FORMER.search(text)]
    assert not former


def test_hints_of_the_doctor_name_no_strangers_distribution():
    """`pip_line("…")` makes them, of names that stand in the call."""
    wrong = []
    for path, text in texts():
        for call in re.findall(r"pip_line\(((?:\"[^\"]*\"|'[^']*'))", text):
            wrong += [f"{path}: {name}" for name in ast.literal_eval(call).split() if name not in KNOWN | {"."}]
    assert not wrong
