"""What the demo installs: a wheel that is there, or a build, which refuses a system that it can't be for."""

import os
import platform
import shutil
import subprocess

import arrows
import pytest


@pytest.fixture
def setup(tmp_path):
    """Runs a script that has set-up's functions, in a folder that looks like the repository."""
    (tmp_path / "tools" / "lib").mkdir(parents=True)
    shutil.copy(arrows.ROOT / "tools" / "lib" / "setup.sh", tmp_path / "tools" / "lib")

    def call(script, **variables):
        script = f"set -euo pipefail; . tools/lib/setup.sh; {script}"
        environment = {name: value for name, value in os.environ.items() if name != "RODA_WHEEL"}
        return subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


@pytest.fixture
def ready_wheel(setup):
    """Calls the function of that name."""
    return lambda **variables: setup("ready_wheel", **variables)


def file(path, age):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("…")
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_the_newest_wheel_is_taken_unless_a_source_is_younger(ready_wheel, tmp_path):
    source = file(tmp_path / "core" / "engine.cc", age=30)
    assert ready_wheel().stdout == ""
    name = f"roda_horovod-1-cp39-abi3-manylinux_2_28_{platform.machine()}.whl"
    built = file(tmp_path / "build" / "wheels" / "dist" / name, age=20)
    assert ready_wheel().stdout == str(built.relative_to(tmp_path))
    newer = file(tmp_path / "dist" / name, age=10)
    assert ready_wheel().stdout == str(newer.relative_to(tmp_path))
    file(source, age=5)
    assert ready_wheel().stdout == ""
    assert ready_wheel(RODA_WHEEL=str(built)).stdout == str(built)


def test_a_wheel_that_is_named_and_not_there(ready_wheel):
    done = ready_wheel(RODA_WHEEL="/nowhere.whl")
    assert done.returncode == 1
    assert "RODA_WHEEL=/nowhere.whl: there is no such file" in done.stderr


@pytest.mark.skipif(not shutil.which("meson") or not shutil.which("ninja"), reason="meson is not installed")
def test_a_build_on_musl_says_what_it_needs(tmp_path):
    """A header in front of the system's stands for a C library that does not call itself glibc."""
    (tmp_path / "features.h").write_text("#include_next <features.h>\n#undef __GLIBC__\n")
    flags = {**os.environ, "CXXFLAGS": f"-I{tmp_path}"}
    command = ["meson", "setup", tmp_path / "build", arrows.ROOT]
    done = subprocess.run(command, env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "ERROR" in line]
    assert line.endswith("is not glibc, which Roda needs (Alpine has musl): build on Debian or the like")


@pytest.mark.skipif(not shutil.which("meson") or not shutil.which("ninja"), reason="meson is not installed")
@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_GLOO": "1"},
            "HOROVOD_WITH_GLOO asks for the transport gloo, which this build lacks (no: left out by "
            "HOROVOD_WITHOUT_GLOO)",
        ),
        (
            {"HOROVOD_CPU_OPERATIONS": "CCL", "HOROVOD_GPU_OPERATIONS": "ours+loop", "HOROVOD_WITHOUT_GLOO": "1"},
            "HOROVOD_CPU_OPERATIONS asks for the transport ccl, which this build lacks (Roda has none of that name)",
        ),
    ],
    ids=["left out", "unknown"],
)
def test_horovods_build_variables_are_answered(tmp_path, variables, reason):
    command = ["meson", "setup", tmp_path / "build", arrows.ROOT, "-Dtransports=loop,gloo", "-Dpython=disabled"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "ERROR" in line]
    assert line.endswith(reason)


def test_what_tools_print_goes_into_a_log_and_a_failure_shows_its_end(setup, tmp_path):
    done = setup("""
      logged logs/a.log sh -c 'seq 100; echo why >&2'
      logged logs/b.log sh -c 'seq 100; exit 3' || echo failed
    """)
    assert done.stdout == "failed\n"
    assert (tmp_path / "logs/a.log").read_text().endswith("100\nwhy\n")
    lines = done.stderr.splitlines()
    assert lines[0] == "61"
    assert lines[-2:] == ["error: failed: sh -c seq 100; exit 3", "       the whole output is in logs/b.log"]


def test_a_terminal_shows_the_last_line_of_the_log(setup, tmp_path):
    """What sleeps writes the log: nothing at first, then lines of the compiler's."""
    done = setup("""
      n=0
      sleep() {
        n=$((n + 1))
        case $n in
          1) : >log ;;
          2) printf '[1/20] Compiling a\\n[12/20] Compiling b\\n' >log ;;
          3) return 1 ;;
        esac
      }
      followed log || true
    """)
    assert done.stdout.replace("\n", "\r") == "\r\033[K    \r\033[K    [12/20] Compiling b", "Python reads \\r as \\n"
    assert done.stderr == ""
