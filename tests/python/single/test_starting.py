"""Every way in which programs begin, on two ranks: what they begin with neither hides the job nor is hidden by it.

Notebooks are in ``test_function_mode.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]
# The engine's objects are enough; no framework has to be imported.
WORK = """
from horovod.common.basics import HorovodBasics
from horovod.common.objects import allgather_object

def gather(value):
    HorovodBasics().init()
    return allgather_object(value)
"""
SCRIPT = "import sys\nfrom {0}work import gather\nprint('ranks', gather(sys.argv[1:]), __name__, __package__ or '')\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with a package of three modules: `work`, `train`, and `__main__`."""
    package = tmp_path / "my program" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "work.py").write_text(WORK)
    for name in ("train.py", "__main__.py"):
        (package / name).write_text(SCRIPT.format("."))
    (package.parent / "work.py").write_text(WORK)
    (package.parent / "train.py").write_text(SCRIPT.format(""))
    return package.parent


def ranks(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """See that both ranks ran and found each other."""
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in (0, 1):
        assert any(
            line.startswith(f"[{rank}]<stdout>:ranks ") and all(word in line for word in words)
            for line in done.stdout.splitlines()
        ), done.stdout + done.stderr


def test_a_script_with_arguments(horovodrun: Launch, program: Path) -> None:
    done = horovodrun("-np", "2", sys.executable, str(program / "train.py"), "a b", "-np", cwd="/")
    ranks(done, "[['a b', '-np'], ['a b', '-np']] __main__")


@pytest.mark.parametrize("name", ["package", "package.train"])
def test_a_module(horovodrun: Launch, program: Path, name: str) -> None:
    ranks(horovodrun("-np", "2", sys.executable, "-m", name, "x", cwd=program), "[['x'], ['x']] __main__ package")


def test_code_on_the_command_line(horovodrun: Launch, program: Path) -> None:
    code = "import sys; from work import gather; print('ranks', gather(sys.argv))"
    ranks(horovodrun("-np", "2", sys.executable, "-c", code, 'it\'s "x"', cwd=program), "[['-c', 'it\\'s \"x\"']")


def test_code_from_standard_input(horovodrun: Launch, program: Path) -> None:
    """The launcher's own input is nobody's: a shell gives each rank the program."""
    done = horovodrun("-np", "2", "sh", "-c", f"'{sys.executable}' - y <train.py", cwd=program)
    ranks(done, "[['y'], ['y']] __main__")


def test_an_archive(horovodrun: Launch, program: Path) -> None:
    with zipfile.ZipFile(program / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", SCRIPT.format(""))
        archive.writestr("work.py", WORK)
    ranks(horovodrun("-np", "2", sys.executable, "app.pyz", "z", cwd=program), "[['z'], ['z']] __main__")


def test_an_executable_file(horovodrun: Launch, program: Path) -> None:
    """As pip makes console scripts, by its absolute path, from PATH, and by another program."""
    script = program / "my-train"
    script.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, '{program}')\nfrom package import train\n")
    script.chmod(0o755)
    ranks(horovodrun("-np", "2", str(script), "1"), "[['1'], ['1']] package.train package")
    path = f"{program}:{os.environ['PATH']}"
    ranks(horovodrun("-np", "2", "my-train", env={**os.environ, "PATH": path}), "[[], []] package.train")
    ranks(horovodrun("-np", "2", "env", "X=1", "my-train", env={**os.environ, "PATH": path}), "package.train")


def test_an_environment_whose_path_has_spaces(horovodrun: Launch, program: Path, tmp_path: Path) -> None:
    """As one of conda's: the ranks' Python lies there, and so does the launcher's."""
    folder = tmp_path / "an environment"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    ranks(horovodrun("-np", "2", str(python), "train.py", cwd=program), "[[], []] __main__")
    command = [str(python), "-m", "horovod.runner.launch", "-np", "2", str(python), "train.py"]
    ranks(subprocess.run(command, cwd=program, capture_output=True, text=True, timeout=120, check=False), "[[], []]")
    call = "print(horovod.run(work.gather, [1], num_proc=2))"
    (program / "run.py").write_text(f"import horovod, work\nif __name__ == '__main__':\n    {call}\n")
    done = subprocess.run(
        [str(python), "run.py"], cwd=program, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(program)},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["[[1, 1], [1, 1]]"], done.stdout + done.stderr


def test_pythonstartup_is_for_people(horovodrun: Launch, program: Path) -> None:
    (program / "startup.py").write_text("raise SystemExit('read by a program')\n")
    variables = {**os.environ, "PYTHONSTARTUP": str(program / "startup.py")}
    ranks(horovodrun("-np", "2", sys.executable, "train.py", cwd=program, env=variables), "[[], []] __main__")


CLICK = """
import click
from work import gather

@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--rate", type=float)
@click.argument("rest", nargs=-1)
def main(rate, rest):
    click.echo(f"ranks {gather((rate, rest))}")

if __name__ == "__main__":
    main()
"""


def test_a_main_of_click(horovodrun: Launch, program: Path) -> None:
    pytest.importorskip("click", reason="click is not installed")
    (program / "command.py").write_text(CLICK)
    done = horovodrun("-np", "2", sys.executable, "command.py", "--rate", "0.5", "a", "-q", cwd=program)
    ranks(done, "[(0.5, ('a', '-q')), (0.5, ('a', '-q'))]")


HYDRA = """
import hydra
from work import gather

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config):
    print("ranks", gather(config.rate))

if __name__ == "__main__":
    main()
"""


def test_a_main_of_hydra(horovodrun: Launch, program: Path) -> None:
    pytest.importorskip("hydra", reason="hydra-core is not installed")
    (program / "conf").mkdir()
    (program / "conf" / "config.yaml").write_text("rate: 1\n")
    (program / "with_hydra.py").write_text(HYDRA)
    ranks(horovodrun("-np", "2", sys.executable, "with_hydra.py", "rate=3", cwd=program), "[3, 3]")


SPAWN = """
import multiprocessing
import os
from work import gather

def child(queue):
    from horovod.common.basics import HorovodBasics
    queue.put((os.environ["HOROVOD_RANK"], HorovodBasics().is_initialized()))

if __name__ == "__main__":
    numbers = gather(os.environ["HOROVOD_RANK"])
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        told = queue.get()
        process.join()
        assert (told[0], process.exitcode) == (os.environ["HOROVOD_RANK"], 0), (method, told, process.exitcode)
    print("ranks", gather(numbers))  # no child took the engine along
"""


def test_children_of_a_rank(horovodrun: Launch, program: Path) -> None:
    """Which import the program again, and have the rank's variables."""
    (program / "spawn.py").write_text(SPAWN)
    ranks(horovodrun("-np", "2", sys.executable, "spawn.py", cwd=program), "[['0', '1'], ['0', '1']]")


UNGUARDED = """
import multiprocessing
from horovod.common.basics import HorovodBasics

HorovodBasics().init()
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
"""


def test_a_program_that_its_children_run_again(horovodrun: Launch, program: Path) -> None:
    (program / "unguarded.py").write_text(UNGUARDED)
    done = horovodrun("-np", "2", sys.executable, "unguarded.py", cwd=program)
    assert done.stderr.count("put hvd.init() in `if __name__ == '__main__':`") == 2, done.stderr


TORCH_SPAWN = """
import torch.multiprocessing
from work import gather

def child(index):
    assert index in (0, 1)

if __name__ == "__main__":
    gather(0)
    torch.multiprocessing.spawn(child, nprocs=2)
    print("ranks", gather(1))
"""


def test_torchs_spawn_inside_a_rank(horovodrun: Launch, program: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (program / "torch_spawn.py").write_text(TORCH_SPAWN)
    ranks(horovodrun("-np", "2", sys.executable, "torch_spawn.py", cwd=program), "[1, 1]")
