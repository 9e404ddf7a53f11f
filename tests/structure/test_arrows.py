"""Arrows between folders point one way."""

import graphlib

import arrows
import pytest

FOLDERS = ("plugins", "transports", "algorithms", "core", "bindings", "tools", "examples")
# The only file of the core that may spell a transport's name: what it says about the settings is read by people.
KNOB_TABLE = ("core/knobs/",)


@pytest.mark.parametrize("folder", FOLDERS)
def test_includes_follow_the_arrows(folder):
    errors = []
    for path in arrows.sources(folder):
        errors += arrows.include_errors(path, (arrows.ROOT / path).read_text())
    assert not errors, "\n".join(errors)


def test_no_two_rooms_of_the_core_need_each_other():
    list(graphlib.TopologicalSorter(arrows.CORE).static_order())  # an error names the circle


def test_core_names_no_transport():
    errors = []
    for path in arrows.sources("core"):
        if not path.startswith(KNOB_TABLE):
            errors += [f"{path}: {text!r}" for text in arrows.transport_names_in((arrows.ROOT / path).read_text())]
    assert not errors, "\n".join(errors)


def test_frameworks_are_imported_only_where_they_are_bound():
    errors = []
    for path in arrows.sources("bindings/python", suffixes={".py"}):
        errors += arrows.framework_errors(path, (arrows.ROOT / path).read_text())
    assert not errors, "\n".join(errors)


def test_nothing_of_ours_needs_what_other_programs_import():
    texts = {path: (arrows.ROOT / path).read_text() for path in arrows.sources("bindings/python", suffixes={".py"})}
    names = arrows.compat_names(texts)
    assert len(names) > 10
    errors = [error for path, text in texts.items() for error in arrows.compat_errors(path, text, names)]
    assert not errors, "\n".join(errors)


def test_no_two_modules_of_python_need_each_other():
    texts = {path: (arrows.ROOT / path).read_text() for path in arrows.sources("bindings/python", suffixes={".py"})}
    graphlib.TopologicalSorter(arrows.python_imports(texts)).prepare()  # a CycleError names them
    with pytest.raises(graphlib.CycleError):
        circle = {"horovod/a.py": "def f():\n    from horovod import b", "horovod/b.py": "import horovod.a"}
        graphlib.TopologicalSorter(arrows.python_imports(circle)).prepare()


def test_every_source_folder_is_in_the_table():
    for path in arrows.sources(*FOLDERS):
        assert arrows.home(path), path


# The checker itself: each of these must be noticed.


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("transports/shm/a.cc", '#include "core/engine/engine.h"'),
        ("transports/shm/a.cc", '#include "transports/gloo/a.h"'),
        ("transports/shm/a.cc", '#include "plugins/loader/loader.h"'),
        ("transports/shm/a.cc", "#include <gloo/allreduce.h>"),
        ("algorithms/ring.cc", "#include <roda/abi/transport.h>"),
        ("algorithms/ring.cc", '#include "plugins/base/status.h"'),
        ("algorithms/ring.cc", '#include "tools/sim/model/simulate.h"'),
        ("core/plan/a.cc", '#include "tools/sim/model/simulate.h"'),
        ("core/a.cc", '#include "transports/shm/a.h"'),
        ("core/a.cc", '#include "bindings/c/roda.h"'),
        ("core/a.cc", "#include <roda/sdk/transport.h>"),
        ("plugins/abi/roda/abi/a.h", '#include "plugins/base/status.h"'),
        ("plugins/sdk/roda/sdk/a.h", '  #  include "plugins/base/status.h"'),
        ("bindings/python/a.cc", '#include "core/engine/engine.h"'),
        ("tools/info/a.cc", '#include "core/knobs/knobs.h"'),
        ("core/a.cc", '#include "a.h"'),
        ("core/a.cc", "#include <mpi.h>"),
    ],
)
def test_a_wrong_arrow_is_noticed(path, line):
    def exists(name):
        return name.startswith(("core/", "transports/", "plugins/", "bindings/", "algorithms/", "tools/"))

    assert arrows.include_errors(path, f"#pragma once\n{line}\n", exists)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("transports/gloo/a.cc", "#include <gloo/allreduce.h>"),
        ("transports/shm/a.cc", '#include "transports/shm/b.h"'),
        ("core/a.cc", "#include <roda/abi/types.h>"),
        ("tools/perf/a.cc", '#include "bindings/c/roda.h"'),
        ("tools/perf/peers/a.cc", "#include <mpi.h>"),
    ],
)
def test_a_right_arrow_is_let_through(path, line):
    assert not arrows.include_errors(path, f"{line}\n", lambda name: not name.startswith(("gloo/", "mpi")))


def test_transport_names_are_found_in_literals_only():
    assert arrows.transport_names_in('if (name == "nccl") {}') == ["nccl"]
    assert arrows.transport_names_in('auto s = R"(allreduce = shm/oneshot)";')
    assert not arrows.transport_names_in('// "shm" is fast\n#include "transports/shm/a.h"\nauto x = "ship";')


def test_framework_imports_are_found():
    assert arrows.framework_errors("bindings/python/horovod/common/a.py", "def f():\n    import torch.nn\n")
    assert not arrows.framework_errors("bindings/python/horovod/torch/a.py", "from torch import nn\n")
    assert not arrows.framework_errors("bindings/python/_roda_torch.py", "import torch\n")
    assert arrows.framework_errors("bindings/python/_roda_torch.py", "import jax\n")


def test_imports_of_what_is_there_for_other_programs_are_found():
    name = "horovod.runner.common.util.network"
    alias = f"import sys\nfrom {arrows.COMPAT} import network\nsys.modules[__name__] = network\n"
    names = arrows.compat_names({"bindings/python/horovod/runner/common/util/network.py": alias})
    assert names == {arrows.COMPAT, name}
    job = "bindings/python/horovod/runner/job.py"
    lines = [f"import {name}", "from horovod.runner.common.util import network", f"from {name} import Wire"]
    lines += [f"from {arrows.COMPAT}.network import Wire", f"def f():\n    from {arrows.COMPAT} import network"]
    for line in lines:
        assert arrows.compat_errors(job, line, names), line
    assert not arrows.compat_errors(job, "from horovod.runner.util import network", names)
    assert not arrows.compat_errors("bindings/python/horovod/runner/common/util/network.py", alias, names)
