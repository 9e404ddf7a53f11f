"""Which folder may use which: the table, and what a source file really uses.

The table is the design's: transports know the plugin contract, algorithms know nothing, the core knows capabilities and
no transport's name, bindings and tools go through the C API.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What every room of the core may use, and what each may use of the others: a tensor's way, from the engine inwards.
BELOW_CORE = ("algorithms", "plugins/abi", "plugins/base", "plugins/devices", "plugins/loader")
CORE = {
    "knobs": (),
    "wire": (),
    "negotiate": ("wire",),
    "bootstrap": ("knobs",),
    "topology": ("bootstrap",),
    "control": ("bootstrap", "wire"),
    "execute": (),
    "observe": ("wire",),
    "tune": ("wire",),
    "submit": ("negotiate", "wire", "execute"),
    "plan": ("execute", "knobs", "topology"),
    "launch": ("plan", "submit", "negotiate", "execute", "bootstrap"),
    "engine": ("launch", "tune", "plan", "submit", "negotiate", "control", "observe", "bootstrap", "topology", "knobs"),
}

# folder: folders it may include from, besides itself. The longest folder that a path lies in decides.
ALLOWED = {
    "plugins/abi": (),
    "plugins/base": ("plugins/abi",),
    "plugins/sdk": ("plugins/abi",),
    "plugins/devices": ("plugins/abi", "plugins/sdk", "plugins/base"),
    "plugins/loader": ("plugins/abi", "plugins/base", "plugins/devices"),
    "plugins/conformance": ("plugins/abi", "plugins/sdk", "plugins/base", "plugins/devices", "plugins/loader"),
    "transports": ("plugins/abi", "plugins/sdk", "plugins/base"),
    "algorithms": ("plugins/abi/roda/abi/types.h",),  # the tables of collectives and dtypes: plain values
    "core": BELOW_CORE,
    **{f"core/{room}": (*BELOW_CORE, *(f"core/{other}" for other in others)) for room, others in CORE.items()},
    "bindings/c": ("core", "algorithms", "plugins/abi", "plugins/base", "plugins/loader"),
    "bindings/python": ("bindings/c", "plugins/abi"),
    "bindings/jax": ("bindings/c", "plugins/abi"),
    "bindings/mxnet": ("bindings/c", "plugins/abi"),
    "bindings/tensorflow": ("bindings/c", "plugins/abi"),
    "tools": ("bindings/c", "algorithms", "plugins/abi", "plugins/base/command_line.h", "plugins/loader"),
    "examples": ("plugins/abi", "plugins/sdk", "bindings/c"),
    "tests": ("",),
}

# Headers by the path that they are installed under.
INSTALLED = {
    "roda/abi/": "plugins/abi/roda/abi/",
    "roda/sdk/": "plugins/sdk/roda/sdk/",
    "roda/roda.h": "bindings/c/roda.h",
}

# Vendor headers stay in the one folder that wraps them, and in the programs that measure them.
VENDOR_HEADERS = {
    "gloo/": "transports/gloo",
    "mpi.h": "transports/mpi",
    "ucp/": "transports/ucx",
    "infiniband/": "transports/verbs",
    "nccl.h": "transports/nccl",
}
VENDOR_USERS = ("tools/perf/peers",)

TRANSPORT_NAMES = ("shm", "tcp", "gloo", "mpi", "ucx", "verbs", "nccl")
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "mxnet")

# Horovod's internals that other programs import, under Horovod's names, too: who of ours may use them, and why.
COMPAT = "horovod.runner.compat"
COMPAT_USERS = {
    "bindings/python/horovod/runner/compat": "the folder itself",
    "bindings/python/horovod/tensorflow/data": "Horovod's data service is made of them",
    "bindings/python/horovod/runner/elastic/worker.py": "a worker that an ElasticDriver's caller has started",
}

SOURCE_SUFFIXES = {".c", ".cc", ".cpp", ".h", ".hpp"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
# Comments and literals in one pattern, so that neither is found inside the other.
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\((.*?)\)\1"|"((?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)


def sources(*folders, suffixes=SOURCE_SUFFIXES):
    """Every source file below the folders, as a path relative to the root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def within(path, folder):
    return not folder or path == folder or path.startswith(folder.rstrip("/") + "/")


def home(path):
    """The folder of the table that a path lies in, or None."""
    return max((folder for folder in ALLOWED if within(path, folder)), key=len, default=None)


def is_source(path):
    """A file of the tree, or one that the build makes from a template beside it."""
    return (ROOT / path).is_file() or (ROOT / f"{path}.in").is_file()


def resolve(name, exists=is_source):
    """The file of ours that an include names, or None for one of somebody else's."""
    for prefix, real in INSTALLED.items():
        if name.startswith(prefix):
            return real + name[len(prefix) :]
    return name if exists(name) else None


def include_errors(path, text, exists=is_source):
    """What is wrong with the include lines of one file, one sentence each."""
    own = home(path)
    errors = []
    for quote, name in INCLUDE.findall(text):
        target = resolve(name, exists)
        if target is None:
            if quote == '"' and not name.endswith("_generated.h"):
                errors.append(f'{path} includes "{name}", which is no path from the root')
            errors += vendor_errors(path, name)
        elif not allowed(own, path, target):
            errors.append(f"{path} includes {target}: {own} may use only {', '.join(ALLOWED[own]) or 'itself'}")
    return errors


def allowed(own, path, target):
    if own == "transports":  # one transport never sees another
        own = "/".join(path.split("/")[:2])
        return within(target, own) or any(within(target, folder) for folder in ALLOWED["transports"])
    return within(target, own) or any(within(target, folder) for folder in ALLOWED[own])


def vendor_errors(path, name):
    for prefix, wrapper in VENDOR_HEADERS.items():
        if name.startswith(prefix) and not any(within(path, folder) for folder in (wrapper, *VENDOR_USERS)):
            return [f"{path} includes <{name}>, which belongs to {wrapper}"]
    return []


def string_literals(text):
    """The string literals of a C++ text, includes and comments left out."""
    code = INCLUDE.sub("", text)
    return [raw or plain for _, raw, plain in TOKEN.findall(code) if raw or plain]


def transport_names_in(text):
    """The literals of a C++ text that name a transport."""
    names = re.compile(r"(?<![\w.])(" + "|".join(TRANSPORT_NAMES) + r")(?![\w.])", re.IGNORECASE)
    return [literal for literal in string_literals(text) if names.search(literal)]


def imported_modules(text):
    """Top-level names of the modules that a Python text imports, at any depth of the code; relative ones left out."""
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module)
    return modules


def imported_names(text):
    """Those modules, and what is imported from them by name: modules, too, perhaps."""
    names = imported_modules(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def framework_errors(path, text):
    """A framework may be imported only in its own folder of the package: users who lack it must not notice.

    Or in the module that it loads by an entry point.
    """
    parts = path.removesuffix(".py").replace("_roda_", "").split("/")
    used = {name.split(".")[0] for name in imported_modules(text)} & set(FRAMEWORKS)
    return [f"{path} imports {name} outside a folder called {name}" for name in sorted(used) if name not in parts]


def compat_names(texts):
    """Horovod's names of the modules in the folder: `texts` has the package's, by path."""
    names = {COMPAT}
    for path, text in texts.items():
        if f"from {COMPAT} import" in text and "sys.modules[__name__]" in text:
            names.add(path.removeprefix("bindings/python/").removesuffix(".py").replace("/", "."))
    return names


def compat_errors(path, text, names):
    """What Python of ours imports of the folder for other programs, by whichever name, without being listed."""
    module = path.removeprefix("bindings/python/").removesuffix(".py").replace("/", ".")
    if module in names or any(within(path, user) for user in COMPAT_USERS):
        return []
    found = sorted(each for each in imported_names(text) if each in names or each.startswith(f"{COMPAT}."))
    return [f"{path} imports {each}, which is there for other programs" for each in found]


def python_imports(texts):
    """Return which modules each module of Python imports, anywhere in it. Packages are left out: they gather names."""
    named = {path: path.removeprefix("bindings/python/").removesuffix(".py").replace("/", ".") for path in texts}
    return {name: imported_names(texts[path]).intersection(named.values()) for path, name in named.items()}
