"""What pip and importlib.metadata see of us, in virtual environments without network."""

from __future__ import annotations

import ast
import shlex
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import horovod
import pytest
from horovod.common.util import packages_of

ROOT = Path(__file__).resolve().parents[3]
TENSORFLOWS = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu"}
OF_HOROVOD = TENSORFLOWS | {"pytorch", "keras", "mxnet", "spark", "pytorch-spark", "ray"}
EXTRAS = OF_HOROVOD | {"torch", "jax", "lightning", "mpi"}


def has(distribution: str) -> bool:
    try:
        return bool(metadata.files(distribution))
    except metadata.PackageNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not has("roda-horovod"), reason="Roda is not installed as a distribution")
needs_builder = pytest.mark.skipif(not has("setuptools") or not has("pip"), reason="pip or setuptools is not installed")


class Environment:
    """A new virtual environment that holds copies of distributions of this one."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        self.site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def take(self, *distributions: str) -> None:
        """Copy what lies in the folder of packages, and no commands."""
        for name in distributions:
            for file in metadata.files(name) or ():
                source = Path(file.locate())
                if ".." in file.parts or "__pycache__" in file.parts or not source.exists():
                    continue
                target = self.site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-I", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def told_to_install(self, what: str) -> bool:
        """Tell whether a text names what pip can install: a path that is there, or the pattern of our wheels' names."""
        return what == "roda_horovod-*.whl" or Path(shlex.split(what)[0]).exists()

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    made = Environment(tmp_path / "venv")
    made.take("roda-horovod", "cloudpickle", "psutil", "pyyaml", "packaging")
    return made


@pytest.fixture(scope="module")
def horovod_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution that is only a name, built without network."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(ROOT / "packaging" / "horovod", folder / "source")
    options = ["--no-index", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    command = [sys.executable, "-m", "pip", "wheel", "-q", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_metadata() -> None:
    ours = metadata.metadata("roda-horovod")
    assert set(ours.get_all("Provides-Extra")) == EXTRAS
    assert any(line.startswith("torch") and "extra" in line for line in ours.get_all("Requires-Dist"))
    assert "License :: OSI Approved :: Apache Software License" in ours.get_all("Classifier")
    assert "hvd.DistributedOptimizer" in ours.get_payload() or "hvd.DistributedOptimizer" in ours["Description"]
    assert ours["Description-Content-Type"] == "text/markdown"


@needs_builder
def test_tools_find_horovod(environment: Environment, horovod_wheel: Path) -> None:
    """As Ray and requirements of other packages look for it."""
    assert environment.run("-c", "import importlib.metadata as m; m.version('horovod')").returncode != 0
    done = environment.pip("install", "-q", "--no-index", "--no-deps", str(horovod_wheel))
    assert done.returncode == 0, done.stderr
    code = """
import importlib.metadata, importlib.util
from packaging.requirements import Requirement
version = importlib.metadata.version("horovod")
import horovod
assert version == f"{horovod.__version__}+roda.{horovod.roda_version}", version
for text in ("horovod", "horovod>=0.21.2", "horovod==0.28.1", "horovod[pytorch]>=0.28,<0.29"):
    requirement = Requirement(text)
    assert requirement.specifier.contains(version), text
    assert requirement.extras <= set(importlib.metadata.metadata("horovod").get_all("Provides-Extra")), text
assert importlib.util.find_spec("horovod.torch")
"""
    done = environment.run("-c", code)
    assert done.returncode == 0, done.stderr
    (environment.site / "user-1.0.dist-info").mkdir()
    (environment.site / "user-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: user\nVersion: 1.0\nRequires-Dist: horovod[pytorch]>=0.28\n"
    )
    done = environment.pip("check")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_builder
@pytest.mark.skipif(not has("lightning-utilities"), reason="Lightning is not installed")
def test_lightnings_own_check_finds_horovod(environment: Environment, horovod_wheel: Path) -> None:
    environment.take("lightning-utilities", "typing-extensions")
    code = """
import operator
from lightning_utilities.core.imports import RequirementCache, compare_version, module_available
for text in ("horovod>=0.21.2", "horovod==0.28.1", "horovod>=0.29"):
    print(bool(RequirementCache(text)))
assert module_available("horovod") and compare_version("horovod", operator.ge, "0.21.2")
"""
    before = environment.run("-c", code)
    assert before.stdout.split() == ["False"] * 3, before.stderr
    done = environment.pip("install", "-q", "--no-index", "--no-deps", str(horovod_wheel))
    assert done.returncode == 0, done.stderr
    after = environment.run("-c", code)
    assert after.stdout.split() == ["True", "True", "False"]


@needs_builder
def test_the_name_has_the_extras_of_horovod(horovod_wheel: Path) -> None:
    (found,) = metadata.distributions(path=[str(horovod_wheel)])
    assert set(found.metadata.get_all("Provides-Extra")) == OF_HOROVOD
    assert f"roda-horovod=={horovod.roda_version}" in found.metadata.get_all("Requires-Dist")
    assert all("dist-info" in str(file) for file in found.files)


def install_horovod_beside(environment: Environment) -> None:
    folder = environment.site / "horovod-0.28.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")


def test_horovod_beside_us_is_an_error_with_the_line_that_mends_it(environment: Environment) -> None:
    assert environment.run("-c", "import horovod").returncode == 0
    install_horovod_beside(environment)
    # What torch loads when it is imported comes up all the same.
    assert environment.run("-c", "import _roda_torch").returncode == 0
    mend = "pip uninstall -y horovod && pip install --force-reinstall --no-deps "
    for arguments in (("-c", "import horovod"), ("-m", "horovod.doctor"), ("-m", "horovod.runner.launch", "--version")):
        done = environment.run(*arguments)
        assert done.returncode == 1
        assert "horovod-0.28.1.dist-info), and their files are mixed" in done.stderr
        assert mend in done.stderr
    assert environment.told_to_install(done.stderr.partition(mend)[2].strip())


def install_former(environment: Environment) -> None:
    """Roda under the name that it had, and its distribution `horovod`."""
    for name, version, files, requirement in (
        ("roda", "0.1.0", "horovod/__init__.py,,\n", ""),
        ("horovod", "0.28.1+roda.0.1.0", "", "Requires-Dist: roda==0.1.0\n"),
    ):
        folder = environment.site / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "RECORD").write_text(f"{files}{folder.name}/METADATA,,\n{folder.name}/RECORD,,\n")
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}")
        (folder / "INSTALLER").write_text("pip\n")


@needs_builder
def test_roda_under_its_former_name(environment: Environment) -> None:
    """Uninstalled later, that would take our files along."""
    install_former(environment)
    assert environment.pip("check").returncode == 0
    done = environment.run("-c", "import horovod")
    assert done.returncode == 1
    assert "Roda under its former name is installed beside Roda" in done.stderr
    assert "roda-0.1.0.dist-info), and their files are mixed" in done.stderr
    mend = "pip uninstall -y horovod roda && pip install --force-reinstall --no-deps "
    assert environment.told_to_install(done.stderr.partition(mend)[2].strip())
    assert environment.pip("uninstall", "-y", "horovod", "roda").returncode == 0
    checked = environment.pip("check")
    assert checked.returncode == 0, checked.stdout


def test_a_strangers_roda_is_nobodys_business(environment: Environment) -> None:
    folder = environment.site / "roda-0.1.23.dist-info"
    folder.mkdir()
    (folder / "RECORD").write_text("roda/__init__.py,,\n")
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: roda\nVersion: 0.1.23\n")
    assert environment.run("-c", "import horovod").returncode == 0


def test_the_doctor_tells_when_horovod_came_later(environment: Environment) -> None:
    """Horovod has put its own files over some of ours, the first one among them."""
    install_horovod_beside(environment)
    (environment.site / "horovod" / "__init__.py").write_text("__version__ = '0.28.1'\n")
    (environment.site / "horovod" / "runner" / "mpi_run.py").write_text("")
    done = environment.run("-m", "horovod.doctor")
    assert done.returncode == 1
    assert done.stderr.startswith("horovod.doctor: Horovod is installed beside Roda")


def test_the_doctor_tells_of_horovod_elsewhere_in_the_path(environment: Environment, tmp_path: Path) -> None:
    folder = tmp_path / "older" / "horovod-0.19.0.egg-info"
    folder.mkdir(parents=True)
    (folder / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: horovod\nVersion: 0.19.0\n")
    (environment.site / "older.pth").write_text(f"{folder.parent}\n")
    done = environment.run("-m", "horovod.doctor", "--no-self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Horovod 0.19.0 itself is installed too" in done.stdout
    assert "-> pip uninstall -y horovod" in done.stdout


def test_the_doctor_names_a_package_that_is_missing(environment: Environment) -> None:
    shutil.rmtree(environment.site / "psutil")
    done = environment.run("-m", "horovod.doctor")
    assert done.returncode == 1
    assert done.stderr == "horovod.doctor: a package that Roda needs is not installed: pip install psutil\n"


@pytest.mark.parametrize("name", ["torch", "tensorflow", "keras", "jax", "mxnet", "ray", "spark"])
def test_a_binding_without_its_framework_tells_what_to_install(environment: Environment, name: str) -> None:
    done = environment.run("-c", f"import horovod.{name}")
    assert done.returncode == 1
    framework = {"spark": "pyspark"}.get(name, name)
    text = f"horovod.{name} needs {framework}, which is not installed: pip install {packages_of(framework)}"
    assert done.stderr.strip().splitlines()[-1] == f"ModuleNotFoundError: {text}"


def test_versions_agree() -> None:
    """The two build files, and the version that Python tells."""
    versions = {}
    for path in ("pyproject.toml", "packaging/horovod/pyproject.toml"):
        line = next(line for line in (ROOT / path).read_text().splitlines() if line.startswith("version ="))
        versions[path] = ast.literal_eval(line.partition("=")[2].strip())
    assert horovod.__version__ == "0.28.1"  # exactly: programs end at another one
    assert horovod.roda_version == versions["pyproject.toml"]
    assert versions["packaging/horovod/pyproject.toml"] == f"0.28.1+roda.{horovod.roda_version}"


def test_every_tool_tells_the_version() -> None:
    entries = metadata.distribution("roda-horovod").entry_points
    for name in (entry.name for entry in entries if entry.group == "console_scripts"):
        program = Path(sys.executable).with_name(name)
        if not program.exists():
            pytest.skip(f"{name} is not beside this Python")
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
        ours = f"Roda {horovod.roda_version}"
        expected = f"0.28.1 ({ours})" if name == "horovodrun" else ours
        assert (told.returncode, told.stdout.strip()) == (0, expected), name
