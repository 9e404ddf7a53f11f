"""What README and docs say must hold."""

import os
import re
import subprocess
import sys
from pathlib import Path

import arrows
import pytest

README = (arrows.ROOT / "README.md").read_text()
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(arrows.ROOT).as_posix() for path in (arrows.ROOT / "docs").rglob("*.md")),
]
BIN = Path(sys.executable).parent


def blocks(language):
    """Code blocks of README."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def headings(page):
    """What links may name in a page, as GitHub makes it of the headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = arrows.ROOT / page
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", path.read_text())
    ours = [(path.parent / link if link else path, anchor) for link, anchor in links if "://" not in link]
    missing = [link for link, anchor in ours if not link.exists() or (anchor and anchor not in headings(link))]
    assert not missing, missing


def test_files_to_extend_are_there():
    named = re.findall(r"`((?:\w+/)+[\w.]*)`", (arrows.ROOT / "docs/extending.md").read_text())
    ours = [name for name in named if not re.search(r"NAME|FRAMEWORK", name)]
    assert len(ours) > 20
    below = [arrows.ROOT, arrows.ROOT / "bindings/python"]  # horovod/… is the package
    assert not [name for name in ours if not any((folder / name).exists() for folder in below)]


def test_pictures_are_there_and_small():
    shown = set(re.findall(r"docs/pictures/([\w.-]+)", README))
    there = {path.name: path.stat().st_size for path in (arrows.ROOT / "docs/pictures").iterdir()}
    assert shown == set(there)
    assert sum(there.values()) <= 200 << 10


def test_commands_that_readme_names_exist():
    for command in re.findall(r"^(tools/\S+)", "".join(blocks("")), re.MULTILINE):
        assert os.access(arrows.ROOT / command, os.X_OK), command


@pytest.mark.skipif(not (BIN / "horovodrun").exists(), reason="Roda is not installed beside this Python")
def test_the_example_runs(tmp_path):
    (example,) = blocks("python")
    assert len(example.strip().splitlines()) <= 12
    script = tmp_path / "train.py"
    script.write_text(example + 'print("loss", loss.item())\n')
    done = subprocess.run(
        [BIN / "horovodrun", "-np", "2", sys.executable, script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("loss") == 2


@pytest.mark.skipif(not (BIN / "roda-info").exists(), reason="Roda is not installed beside this Python")
@pytest.mark.parametrize(
    "options",
    [["--explain", "allreduce", "64MiB"], ["--env"], ["--json"], ["--explain", "barrier", "0", "--np", "3", "--json"]],
)
def test_roda_info_answers(options):
    done = subprocess.run([BIN / "roda-info", *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.skipif(not (BIN / "roda-info").exists(), reason="Roda is not installed beside this Python")
def test_the_rule_that_readme_shows_is_understood():
    (rules,) = re.findall(r"HOROVOD_SELECT='([^']+)'", README)
    done = subprocess.run(
        [BIN / "roda-info", "--explain", "allreduce", "4K"],
        env=os.environ | {"HOROVOD_SELECT": rules},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"> \S+/oneshot", done.stdout), done.stdout
