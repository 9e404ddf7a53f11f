"""Every thread of the product is started by start_thread: it has a name, and takes no signals of the program's."""

import re

import arrows
import pytest

FOLDERS = ("plugins", "transports", "algorithms", "core", "bindings")
STARTER = "plugins/base/helper_thread.h"
# Ranks as threads of a program of their own, which plays the engine's part.
PROGRAMS = ("plugins/conformance/",)
BARE = re.compile(
    r"\bstd::j?thread\s*\w*\s*[({]|\bpthread_create\s*\(|\bthrd_create\s*\(|\bstd::async\b|\bclone3?\s*\("
)


def bare_threads(text):
    """Return what starts a thread in C++ text without comments and literals."""
    return [match.group() for match in BARE.finditer(arrows.TOKEN.sub(" ", text))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_threads_are_started_in_one_place(folder):
    errors = []
    for path in arrows.sources(folder):
        if path != STARTER and not path.startswith(PROGRAMS):
            text = (arrows.ROOT / path).read_text()
            errors += [f"{path}: {start}: use start_thread of {STARTER}" for start in bare_threads(text)]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize(
    "text",
    [
        "thread_ = std::thread(loop);",
        "std::thread other([&] { run(); });",
        "std::jthread{run}",
        "pthread_create(&id, nullptr, run, nullptr);",
        "auto later = std::async(run);",
    ],
)
def test_a_bare_thread_is_found(text):
    assert bare_threads(text)


@pytest.mark.parametrize("text", ["std::thread thread_;", "std::vector<std::thread> all;", "// std::thread(run)"])
def test_other_uses_are_none(text):
    assert not bare_threads(text)
