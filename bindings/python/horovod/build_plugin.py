"""``roda-build-plugin``: compiles a transport against the library that this machine has, from sources in here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from horovod.child import Ended, run
from horovod.command_line import Parser, fail, tool
from horovod.doctor.finding import install_line
from horovod.places import PACKAGE, headers_folder, users_folder
from horovod.version import add_version

SOURCE = PACKAGE / "share" / "roda" / "source"
_OPTIONS = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-pthread", "-w"]
_LIMIT = 300  # seconds, for one call of a compiler
# Where a header is from; looked for before anything is compiled.
_PACKAGES = {
    "mpi.h": ("libopenmpi-dev", "openmpi-devel"),
    "ucp/api/ucp.h": ("libucx-dev", "ucx-devel"),
    "gloo/transport/tcp/device.h": ("libgloo-dev", "gloo-devel"),
    "mbedtls/md.h": ("libmbedtls-dev", "mbedtls-devel"),
    "fmt/core.h": ("libfmt-dev", "fmt-devel"),
}


class BuildError(Exception):
    """The plugin can't be built here; the text says what is missing and the line that brings it."""


@dataclass(frozen=True)
class Recipe:
    """A library's needs besides the sources of its transport."""

    compiler: Sequence[str]
    flags: Sequence[str]  # to compile with
    libraries: Sequence[str]  # to link with
    sources: Sequence[Path]
    about: str  # the library, in words


def _words(variable: str) -> list[str]:
    """Return the words of a variable of the environment."""
    return shlex.split(os.environ.get(variable, ""))


def _compiler() -> list[str]:
    """Return the C++ compiler that ``CXX`` names, or the system's."""
    command = _words("CXX") or ["c++"]
    if shutil.which(command[0]) is None:
        raise BuildError(f"there is no C++ compiler ({command[0]}): {install_line('g++', 'gcc-c++')}")
    return command


def _compile(compiler: Sequence[str], text: str, *options: str, folder: Path = SOURCE) -> Ended:
    """Give the compiler a text instead of a file."""
    with tempfile.TemporaryDirectory(prefix="roda-build-") as temporary:
        file = Path(temporary) / "try.cc"
        file.write_text(text, encoding="utf-8")
        return run([*compiler, *_OPTIONS, f"-I{folder}", str(file), *options, "-o", f"{temporary}/out"], _LIMIT)


def _need(compiler: Sequence[str], flags: Sequence[str], headers: Sequence[str]) -> None:
    """Raise BuildError unless the headers can be included; one call of the compiler where they can."""

    def fit(*some: str) -> bool:
        text = "".join(f"#include <{header}>\n" for header in some)
        return _compile(compiler, text, *flags, "-fsyntax-only").status == 0

    if not fit(*headers):
        missing = next((header for header in headers if not fit(header)), headers[-1])
        raise BuildError(f"{' '.join(compiler)} finds no {missing}: {install_line(*_PACKAGES[missing])}")


def _sources(name: str) -> list[Path]:
    """Return the sources of a transport, and those behind the headers of ours that they include."""
    found = sorted((SOURCE / "transports" / name).glob("*.cc"))
    if not found:
        raise BuildError(f"this installation has no sources of {name} in {SOURCE}: install roda-horovod again")
    waiting, seen = list(found), set(found)
    while waiting:
        for include in re.findall(r'^#include "([^"]+)"', waiting.pop().read_text(encoding="utf-8"), re.MULTILINE):
            header = SOURCE / include
            for file in (header, header.with_suffix(".cc")):
                if file.exists() and file not in seen:
                    seen.add(file)
                    waiting.append(file)
    return sorted(file for file in seen if file.suffix == ".cc")


def _external_headers(sources: Sequence[Path]) -> list[str]:
    """Return which of the libraries' headers the sources need, through our own headers too."""
    texts = "".join(file.with_suffix(suffix).read_text(encoding="utf-8") for file in sources for suffix in (".cc", ".h")
                    if file.with_suffix(suffix).exists())  # fmt: skip
    return [header for header in _PACKAGES if f"<{header}>" in texts]


def _mpi() -> Recipe:
    wrapper = _words("MPICXX") or ["mpicxx"]
    if shutil.which(wrapper[0]) is None:
        raise BuildError(
            f"there is no {wrapper[0]} in PATH: load your site's MPI (module load openmpi), name its compiler in "
            f"MPICXX, or {install_line('libopenmpi-dev', 'openmpi-devel')}"
        )
    shown = run([*wrapper, "-show"], 30)
    words = shlex.split(shown.stdout)
    if shown.status != 0 or not words:
        raise BuildError(f"`{' '.join(wrapper)} -show` does not tell how it compiles: {shown.why}")
    compiler = [words[0]]
    if shutil.which(words[0]) is None:
        raise BuildError(f"{wrapper[0]} calls {words[0]}, which is not in PATH: {install_line('g++', 'gcc-c++')}")
    flags = [word for word in words[1:] if word.startswith(("-I", "-D"))] + [
        "-DOMPI_SKIP_MPICXX",
        "-DMPICH_SKIP_MPICXX",
    ]
    _need(compiler, flags, ["mpi.h"])
    macros = run([*compiler, *flags, "-dM", "-E", "-x", "c++", "-include", "mpi.h", os.devnull], _LIMIT).stdout
    flavour = "openmpi" if "#define OPEN_MPI " in macros else "mpich" if "#define MPICH_VERSION " in macros else ""
    if not flavour:
        raise BuildError("its mpi.h is neither Open MPI's nor of MPICH's family, which are the two that Roda knows")
    library, folders = _library_of_mpi(wrapper, words)
    flags += [f"-DRODA_MPI_FLAVOUR={flavour}", f"-DRODA_MPI_HAS_{flavour.upper()}", f'-DRODA_MPI_LIBRARY="{library}"']
    # The library is opened at run time, from where it lies now.
    libraries = [f"-Wl,-rpath,{folder}" for folder in folders] + ["-ldl"]
    return Recipe(compiler, flags, libraries, _sources("mpi"), f"{library} of {shutil.which(wrapper[0])}")


def _library_of_mpi(wrapper: Sequence[str], words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name that programs of this MPI load its library by, and folders that it may lie in."""
    text = "#include <mpi.h>\nint main() { int flag; return MPI_Initialized(&flag); }\n"
    folders = [word[2:] for word in words if word.startswith("-L")]
    with tempfile.TemporaryDirectory(prefix="roda-build-") as temporary:
        file, program = Path(temporary) / "try.cc", f"{temporary}/try"
        file.write_text(text, encoding="utf-8")
        done = run([*wrapper, "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", str(file), "-o", program], _LIMIT)
        if done.status != 0:
            raise BuildError(f"{' '.join(wrapper)} can't link a program: {done.why}")
        loaded = run(["ldd", program], 30).stdout
    for name, path in re.findall(r"^\s*(libmpi\S*)(?: => (/\S+))?", loaded, re.MULTILINE):
        if not re.match(r"libmpi(ch)?(_?cxx|_?mpi_?fh|_usempi)", name):
            return name, list(dict.fromkeys(folders + ([str(Path(path).parent)] if path else [])))
    raise BuildError(f"a program of {' '.join(wrapper)} loads no libmpi; ldd says: {loaded.strip() or 'nothing'}")


def _pkg_config(*arguments: str) -> list[str]:
    if shutil.which("pkg-config") is None:
        raise BuildError(f"there is no pkg-config: {install_line('pkg-config', 'pkgconf-pkg-config')}")
    done = run(["pkg-config", *arguments], 30)
    return shlex.split(done.stdout) if done.status == 0 else []


def _ucx() -> Recipe:
    compiler, version = _compiler(), _pkg_config("--modversion", "ucx")
    flags = _pkg_config("--cflags", "ucx")
    sources = _sources("ucx")
    _need(compiler, flags, _external_headers(sources))
    if not version:
        raise BuildError(
            "pkg-config knows no ucx: load your site's module (module load ucx), put the folder of its ucx.pc into "
            f"PKG_CONFIG_PATH, or {install_line('libucx-dev', 'ucx-devel')}"
        )
    folders = [word[2:] for word in _pkg_config("--libs", "ucx") if word.startswith("-L")]
    # The library is opened at run time, from where it lies now.
    libraries = [*(f"-Wl,-rpath,{each}" for each in folders), "-ldl"]
    return Recipe(compiler, flags, libraries, sources, f"UCX {version[0]}")


def _gloo() -> Recipe:
    compiler, sources = _compiler(), _sources("gloo")
    folder = SOURCE / "transports" / "gloo"
    flags = _words("CXXFLAGS")
    _need(compiler, flags, _external_headers(sources))
    if _compile(compiler, "#include <gloo/common/memory.h>\n", *flags, "-fsyntax-only").status != 0:
        flags.append(f"-I{folder / 'missing'}")  # a header that Gloo includes and does not install

    def fits(probe: str) -> bool:
        text = (folder / "probes" / f"{probe}.cc").read_text(encoding="utf-8")
        return _compile(compiler, text, *flags, "-fsyntax-only").status == 0

    listens = fits("pairs_listen")
    if not fits("counts_completions") or not (listens or fits("pairs_take_sockets")):
        raise BuildError(
            "this Gloo's insides are not those that the transport knows: take the commit of Debian's libgloo-dev"
        )
    flags.append(f"-DRODA_GLOO_PAIRS_LISTEN={int(listens)}")
    return Recipe(compiler, flags, ["-lgloo", "-lmbedcrypto"], sources, "Gloo")


_RECIPES: dict[str, Callable[[], Recipe]] = {"mpi": _mpi, "ucx": _ucx, "gloo": _gloo}


def _build(recipe: Recipe, target: Path, verbose: bool) -> None:
    """Compile every source, several at a time, and link them."""
    headers = headers_folder()
    if headers is None:
        raise BuildError("the headers of this installation are missing: install roda-horovod again")
    include = [f"-I{SOURCE}", f"-I{headers}"]

    def compile_one(source: Path) -> Path:
        made = target.parent / f"{source.parent.name}-{source.stem}.o"
        command = [
            *recipe.compiler,
            *_OPTIONS,
            *include,
            *recipe.flags,
            *_words("CXXFLAGS"),
            "-c",
            str(source),
            "-o",
            str(made),
        ]
        if verbose:
            print(shlex.join(command))
        done = run(command, _LIMIT)
        if done.status != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.why]
            newer = "" if "-std=c++20" not in done.stderr else "; g++ 10 or clang++ 12 is needed, and CXX names one"
            raise BuildError(f"{source.name} does not compile: {errors[0]}{newer}")
        return made

    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        objects = list(pool.map(compile_one, recipe.sources))
    link = ["-shared", "-pthread", f"-Wl,--version-script={SOURCE / 'plugins' / 'exports.map'}", *_words("LDFLAGS")]
    command = [*recipe.compiler, *link, *map(str, objects), *recipe.libraries, "-o", str(target)]
    if verbose:
        print(shlex.join(command))
    done = run(command, _LIMIT)
    if done.status != 0:
        raise BuildError(f"the plugin does not link: {done.why}")


def _check(plugin: Path) -> str:
    """Load a plugin in a process of its own and return its line about itself; BuildError when it is not usable."""
    program = str(PACKAGE / "bin" / "roda-info")
    done = run([program, "--plugins", "--json"], 60, {**os.environ, "HOROVOD_PLUGIN_PATH": str(plugin.parent)})
    if done.status != 0:
        raise BuildError(f"the plugin was built, and loading it fails: {done.why}")
    records = json.loads(done.stdout)["plugins"]["plugins"]
    record = next((each for each in records if each["path"] == str(plugin)), None)
    if record is None:
        raise BuildError("the plugin was built, and the engine does not find it")
    if not record["usable"]:
        raise BuildError(f"the plugin was built, and it is not usable here: {record['reason']}")
    return str(record["description"])


def _parser() -> Parser:
    parser = Parser(
        prog="roda-build-plugin",
        usage="roda-build-plugin [OPTION]... NAME",
        examples=[
            ("roda-build-plugin mpi", "compile mpi against the MPI whose mpicxx is in PATH"),
            ("MPICXX=/opt/mpi/bin/mpicxx roda-build-plugin mpi", "compile mpi against another MPI"),
            ("roda-build-plugin ucx --output plugins", "put ucx into a folder, for HOROVOD_PLUGIN_PATH"),
        ],
        description="Compile a transport against the library that this machine has, and put it where Roda looks.",
        epilog="mpi asks mpicxx (or the program that MPICXX names), ucx asks pkg-config. CXX, CXXFLAGS and LDFLAGS "
        "are read.",
    )
    # Not required by the parser, which would tell of that before it tells of an option that it does not know.
    parser.add_argument("name", nargs="?", choices=sorted(_RECIPES), help="the transport")
    parser.add_argument("--output", metavar="FOLDER", type=Path, help=f"folder of the plugin ({users_folder()})")
    add_version(parser)
    parser.add_argument("--verbose", action="store_true", help="print the compiler's calls")
    return parser


@tool
def main(arguments: Sequence[str] | None = None) -> int:
    """Build a plugin.

    Returns
    -------
    int
        0: it is there and usable. 1: it could not be built, and nothing was changed.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.name is None:
        parser.error("NAME is missing")
    folder = options.output or users_folder()
    started = time.monotonic()
    try:
        recipe = _RECIPES[options.name]()
        print(f"roda-build-plugin: {len(recipe.sources)} sources against {recipe.about}", flush=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            text = f"{folder} can't be made ({error.strerror}): name another folder with --output"
            raise BuildError(text) from error
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as temporary:
            built = Path(temporary).resolve() / f"roda_{options.name}.so"
            _build(recipe, built, options.verbose)
            about = _check(built)
            installed = folder / built.name
            os.replace(built, installed)
    except (BuildError, OSError) as error:
        fail("roda-build-plugin", error)
        return 1
    print(f"roda-build-plugin: {installed}: {about} ({time.monotonic() - started:.0f} s)")
    if options.output:
        print(f"Roda finds it with HOROVOD_PLUGIN_PATH={folder}")
    return 0
