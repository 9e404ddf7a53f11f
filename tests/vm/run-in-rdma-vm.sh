#!/usr/bin/env bash
# Runs a command in a small QEMU guest that has software RDMA devices (the kernel's rdma_rxe, RoCE v2), on a host that
# has none. Needs neither RDMA in the host's kernel nor KVM; root only to install missing packages. See --help and
# docs/testing.md.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: run-in-rdma-vm.sh [options] [--] CMD [ARG...]

Boots Debian's kernel in QEMU, makes N software RDMA NICs (rxe1..rxeN), runs
CMD as root in the guest, prints its stdout and stderr, exits with its status.
The guest sees the host's file system read-only at the same paths (writes go
to memory and are dropped); only --dir is shared read-write.

  -d, --dir DIR      shared read-write at the same path, CMD's working
                     directory (default: the current directory)
  -n, --nics N       RDMA NICs, 1..16 (default 2)
  -t, --timeout S    seconds for the whole run, boot included (default 300);
                     when it passes: exit 124
  -c, --cpus N       guest CPUs (default 1)
  -m, --memory MB    guest memory (default 2048)
  -e, --env N[=V]    set (or pass on) an environment variable; repeatable
  -a, --accel A      auto, kvm or tcg (default auto: kvm where it can work)
  -l, --log FILE     keep the guest's kernel log there
      --mtu N        MTU of the guest's links (default 9000)
      --setup        install the packages, fill the cache, and stop
      --refresh      drop the cached kernel and take the newest one
      --no-install   never call apt-get install
  -h, --help         this text

Exit status: CMD's own; 124 timed out; 125 the guest died or did not boot;
126 the set-up failed; 2 wrong usage.
Environment: RDMA_VM_KERNEL_PKG names the kernel package (default: the newest
linux-image-*-amd64 that apt knows); XDG_CACHE_HOME places the cache.
USAGE
}

die() { local s=$1; shift; echo "run-in-rdma-vm.sh: $*" >&2; exit "$s"; }

dir=$PWD nics=2 limit=300 cpus=1 mem=2048 accel=auto log='' mtu=9000
setup_only=0 refresh=0 install=1 envs=()
need() { [ "$#" -ge 2 ] || die 2 "$1 needs a value"; }
while [ $# -gt 0 ]; do
  case $1 in
    -d|--dir) need "$@"; dir=$2; shift 2 ;;
    -n|--nics) need "$@"; nics=$2; shift 2 ;;
    -t|--timeout) need "$@"; limit=$2; shift 2 ;;
    -c|--cpus) need "$@"; cpus=$2; shift 2 ;;
    -m|--memory) need "$@"; mem=$2; shift 2 ;;
    -e|--env) need "$@"; envs+=("$2"); shift 2 ;;
    -a|--accel) need "$@"; accel=$2; shift 2 ;;
    -l|--log) need "$@"; log=$2; shift 2 ;;
    --mtu) need "$@"; mtu=$2; shift 2 ;;
    --setup) setup_only=1; shift ;;
    --refresh) refresh=1; shift ;;
    --no-install) install=0; shift ;;
    -h|--help) usage; exit 0 ;;
    --) shift; break ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
done
[ "$setup_only" = 1 ] || [ $# -gt 0 ] || { usage >&2; exit 2; }
for v in "$nics" "$limit" "$cpus" "$mem" "$mtu"; do
  case $v in ''|*[!0-9]*) die 2 "not a number: '$v'" ;; esac
done
[ "$nics" -ge 1 ] && [ "$nics" -le 16 ] || die 2 "--nics: 1..16"
dir=$(cd "$dir" 2>/dev/null && pwd -P) || die 2 "--dir: no such directory"
case $dir in /|*,*) die 2 "--dir: neither / nor a path with a comma" ;; esac
[ "$(uname -m)" = x86_64 ] || die 126 "x86-64 only"

# ---- packages ---------------------------------------------------------------
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
PATH=$PATH:/usr/sbin:/sbin
missing=()
want() { # want PACKAGE COMMAND-OR-FILE...
  local p=$1 x; shift
  for x in "$@"; do
    case $x in
      /*) compgen -G "$x" >/dev/null || { missing+=("$p"); return; } ;;
      *) command -v "$x" >/dev/null || { missing+=("$p"); return; } ;;
    esac
  done
}
want qemu-system-x86 qemu-system-x86_64
want busybox-static /bin/busybox
want kmod depmod modprobe
want cpio cpio
want xz-utils xz
want zstd zstd
want iproute2 ip rdma
want ibverbs-providers '/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so'
want ibverbs-utils ibv_devinfo
if [ ${#missing[@]} -gt 0 ]; then
  [ "$install" = 1 ] || die 126 "missing packages: ${missing[*]}"
  echo "run-in-rdma-vm.sh: installing ${missing[*]}" >&2
  get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
      -qq install -y --no-install-recommends "${missing[@]}" >&2
  }
  get || { as_root apt-get -qq update >&2 && get; } || die 126 "apt-get install failed"
fi
ldd /bin/busybox >/dev/null 2>&1 && die 126 "/bin/busybox is not static: install busybox-static"

# ---- kernel and its modules (cached) ----------------------------------------
modules="virtio_pci virtio_console 9pnet_virtio 9p overlay crc32_generic veth
 dummy bridge sch_netem ib_core ib_uverbs ib_umad rdma_ucm rdma_rxe"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rdma-vm
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
[ "$refresh" = 0 ] || rm -rf "$cache/kernel"
if [ ! -e "$cache/kernel/vmlinuz" ]; then
  find_kernel() { # the name of the package to use
    [ -z "${RDMA_VM_KERNEL_PKG:-}" ] || { echo "$RDMA_VM_KERNEL_PKG"; return; }
    apt-cache search --names-only '^linux-image-[0-9]+[.][0-9]+[.][0-9]+.*-amd64$' |
      awk '{print $1}' | grep -vE -- '-(cloud|rt)-amd64$' | sort -V | tail -n1
  }
  sandbox=(); [ "$(id -u)" != 0 ] || sandbox=(-o APT::Sandbox::User=root)
  fetch_kernel() {
    pkg=$(find_kernel)
    [ -n "$pkg" ] || return
    echo "run-in-rdma-vm.sh: fetching $pkg" >&2
    (cd "$tmp" && apt-get "${sandbox[@]}" -qq download "$pkg" >&2)
  }
  tmp=$(mktemp -d "$cache/tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  fetch_kernel || { as_root apt-get -qq update >&2 && fetch_kernel; } || die 126 "cannot fetch a kernel package"
  dpkg -x "$tmp"/*.deb "$tmp/x" || die 126 "cannot unpack $pkg"
  [ -d "$tmp/x/lib/modules" ] || { mkdir -p "$tmp/x/lib"; mv "$tmp/x/usr/lib/modules" "$tmp/x/lib/"; }
  version=$(basename "$tmp"/x/lib/modules/*)
  depmod -b "$tmp/x" "$version"
  mkdir -p "$tmp/kernel/m"
  cp "$tmp/x/boot/vmlinuz-$version" "$tmp/kernel/vmlinuz"
  n=100
  for m in $modules; do # built-in ones yield nothing
    modprobe -d "$tmp/x" -S "$version" --show-depends "$m" | awk '$1 == "insmod" {print $2}' ||
      echo "run-in-rdma-vm.sh: no module $m in $pkg" >&2
  done | awk '!seen[$0]++' > "$tmp/list"
  while read -r f; do
    b=$(basename "$f"); b=$n-${b%%.*}.ko; n=$((n + 1))
    case $f in
      *.xz) xz -dc "$f" ;; *.zst) zstd -qdc "$f" ;; *.gz) gzip -dc "$f" ;; *) cat "$f" ;;
    esac > "$tmp/kernel/m/$b"
  done < "$tmp/list"
  compgen -G "$tmp/kernel/m/*-rdma_rxe.ko" >/dev/null || die 126 "$pkg has no rdma_rxe module"
  echo "$pkg" > "$tmp/kernel/package"
  rm -rf "$cache/kernel"; mv "$tmp/kernel" "$cache/kernel"
  rm -rf "$tmp"; trap - EXIT
fi

# ---- initramfs (cached, rebuilt when this script changes) ---------------------
self=$(sha256sum < "${BASH_SOURCE[0]}" | cut -c1-16)
initrd=$cache/kernel/initrd-$self.gz
if [ ! -e "$initrd" ]; then
  rm -f "$cache"/kernel/initrd-*.gz
  tmp=$(mktemp -d "$cache/tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  mkdir -p "$tmp"/{bin,proc,sys,dev,ro,up,new}
  cp /bin/busybox "$tmp/bin/"
  cp -r "$cache/kernel/m" "$tmp/m"
  cat > "$tmp/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for m in /m/*; do $b insmod $m || $b echo "rdma-vm: insmod $m failed"; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 root /ro
$b mount -t tmpfs -o size=60% up /up; $b mkdir /up/u /up/w
n=/new
$b mount -t overlay -o lowerdir=/ro,upperdir=/up/u,workdir=/up/w overlay $n
for d in proc sys dev run; do $b mkdir -p $n/$d; done
$b mount -t proc proc $n/proc; $b mount -t sysfs sys $n/sys; $b mount -t devtmpfs dev $n/dev
$b mkdir -p $n/dev/pts $n/dev/shm
$b mount -t devpts pts $n/dev/pts; $b mount -t tmpfs shm $n/dev/shm; $b mount -t tmpfs run $n/run
for l in fd:/proc/self/fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
  [ -e $n/dev/${l%%:*} ] || $b ln -s ${l#*:} $n/dev/${l%%:*}
done
$b mkdir -p $n/run/rdma-vm
$b mount -t 9p -o trans=virtio,version=9p2000.L,rw,msize=524288 rundir $n/run/rdma-vm
$b chroot $n /bin/bash /run/rdma-vm/stage2
$b sync; $b poweroff -f
INIT
  chmod +x "$tmp/init"
  (cd "$tmp" && find . | cpio -o -H newc --quiet | gzip -1) > "$cache/initrd.part"
  mv "$cache/initrd.part" "$initrd"
  rm -rf "$tmp"; trap - EXIT
fi
flock -u 9; exec 9>&-
[ "$setup_only" = 0 ] || exit 0

# ---- one run ------------------------------------------------------------------
run=$(mktemp -d "${TMPDIR:-/tmp}/rdma-vm.XXXXXX")
qemu_pid='' cats=()
# shellcheck disable=SC2329 # called by the trap
cleanup() {
  [ -z "$qemu_pid" ] || kill "$qemu_pid" 2>/dev/null || true
  [ ${#cats[@]} -eq 0 ] || kill "${cats[@]}" 2>/dev/null || true
  [ -z "$log" ] || cp "$run/console" "$log" 2>/dev/null || true
  rm -rf "$run"
}
trap cleanup EXIT
trap 'exit 130' INT; trap 'exit 143' TERM
mkdir "$run/share"
{
  printf 'dir=%q nics=%q mtu=%q\n' "$dir" "$nics" "$mtu"
  printf 'export PATH=%q HOME=%q LANG=%q\n' "$PATH" "${HOME:-/root}" "${LANG:-C.UTF-8}"
  [ -z "${LD_LIBRARY_PATH:-}" ] || printf 'export LD_LIBRARY_PATH=%q\n' "$LD_LIBRARY_PATH"
} > "$run/share/vars"
{
  for e in "${envs[@]}"; do
    case $e in
      *=*) printf 'export %s=%q\n' "${e%%=*}" "${e#*=}" ;;
      *) [ -z "${!e+x}" ] || printf 'export %s=%q\n' "$e" "${!e}" ;;
    esac
  done
  printf 'exec'; printf ' %q' "$@"; echo
} > "$run/share/cmd"
cat > "$run/share/stage2" <<'STAGE2'
r=/run/rdma-vm
. $r/vars
exec 2>&1                                   # the kernel log, until CMD runs
mkdir -p "$dir"
mount -t 9p -o trans=virtio,version=9p2000.L,rw,cache=mmap,msize=524288 share "$dir" || exit
cd "$dir" || exit
ulimit -l unlimited; ulimit -c 0
hostname rdma-vm
ip link set lo up
# One veth pair for each NIC, its far end in a bridge. All addresses belong to
# this one host, so the rules below keep what NIC i sends on NIC i's wire
# instead of short-cutting it through lo. (rxe of these kernels works in the
# first network namespace only, so namespaces cannot be used for that.)
ip link add br0 type bridge mcast_snooping 0 && ip link set br0 mtu "$mtu" up
echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
for f in -4 -6; do
  ip $f rule add pref 1000 lookup local; ip $f rule del pref 0 2>/dev/null
done
devs= k=/proc/sys/net/ipv4/conf
for i in $(seq "$nics"); do
  h=$(printf %x "$i") t=$((100 + i)) four=10.77.0.$i
  six=fd77::$h
  echo "link add nic$i address 02:00:00:00:77:$(printf %02x "$i") mtu $mtu type veth peer name sw$i mtu $mtu"
  echo "link set sw$i master br0 up"
  echo "link set nic$i up"
  echo "addr add $four/24 dev nic$i"
  echo "addr add $six/64 dev nic$i nodad"
  echo "route add 10.77.0.0/24 dev nic$i src $four table $t"
  echo "route add fd77::/64 dev nic$i src $six table $t"
  for v in 4 6; do
    [ $v = 4 ] && a=$four net=10.77.0.0/24 || a=$six net=fd77::/64
    echo "$v|rule add pref 5 from $a to $a lookup local"    # to itself: inside
    echo "$v|rule add pref 10 iif nic$i lookup local"
    echo "$v|rule add pref 20 oif nic$i lookup $t"
    echo "$v|rule add pref 30 from $a to $net lookup $t"
  done
  devs="$devs${devs:+ }rxe$i"
  export "RDMA_VM_ADDR_$i=$four" "RDMA_VM_ADDR6_$i=$six"
done > /run/net
grep -v '|' /run/net | ip -batch - || exit
sed -n 's/^4|//p' /run/net | ip -4 -batch - || exit
sed -n 's/^6|//p' /run/net | ip -6 -batch - || exit
for i in $(seq "$nics"); do
  echo 1 > $k/nic$i/accept_local; echo 0 > $k/nic$i/rp_filter; echo 1 > $k/nic$i/arp_ignore
  echo "link add rxe$i type rxe netdev nic$i"
done > /run/rdma
rdma -b /run/rdma || exit
gid() { # index of the GID that matches $1 on rxe1
  local j
  for j in $(seq 0 15); do
    case $(cat /sys/class/infiniband/rxe1/ports/1/gids/$j) in $1) echo "$j"; return ;; esac
  done
}
for _ in $(seq 50); do
  g4=$(gid '*:ffff:0a4d:*') g6=$(gid 'fd77:*')
  [ -z "$g4" ] || [ -z "$g6" ] || break
  sleep 0.1
done
export RDMA_VM=1 RDMA_VM_DEVICES="$devs" RDMA_VM_GID_V4=$g4 RDMA_VM_GID_V6=$g6
# UCX drops its own UD packets on rxe's IPv4 GIDs; RC's wire-up needs UD.
export UCX_IB_GID_INDEX=$g6
port() { # the device of the virtio-serial port named $1
  local p
  for p in /sys/class/virtio-ports/*; do
    [ "$(cat "$p/name")" = "$1" ] && echo "/dev/${p##*/}"
  done
}
echo "rdma-vm: ready at $(cut -d' ' -f1 /proc/uptime) s"
exec 3>"$(port out)" 4>"$(port err)" || exit
mkfifo /run/o /run/e
cat /run/o >&3 & p1=$!
cat /run/e >&4 & p2=$!
bash $r/cmd </dev/null >/run/o 2>/run/e 3>&- 4>&-
echo $? > $r/status
echo "rdma-vm: command ended at $(cut -d' ' -f1 /proc/uptime) s"
# left-over background processes may hold the pipes: give them a moment
( sleep 2; kill $p1 $p2 ) 2>/dev/null & k=$!
wait $p1 $p2 2>/dev/null; kill $k 2>/dev/null
cd /; sync; umount "$dir"
STAGE2

tcg=tcg,thread=multi
case $accel in
  auto) if [ -r /dev/kvm ] && [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo
        then accels=(-accel kvm -accel "$tcg"); else accels=(-accel "$tcg"); fi ;;
  kvm) accels=(-accel kvm) ;;
  tcg) accels=(-accel "$tcg") ;;
  *) die 2 "--accel: auto, kvm or tcg" ;;
esac
mkfifo "$run/out" "$run/err"
cat "$run/out" & cats+=($!)
cat "$run/err" >&2 & cats+=($!)
shares=()
share() { # share TAG PATH OPTIONS: one 9p share
  shares+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap$3"
           -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}
share root / ,readonly=on
share rundir "$run/share" ''
share share "$dir" ''
timeout -k 5 "$limit" qemu-system-x86_64 "${accels[@]}" -cpu max -smp "$cpus" -m "$mem" \
  -nodefaults -no-user-config -display none -monitor none -no-reboot \
  -kernel "$cache/kernel/vmlinuz" -initrd "$initrd" \
  -append 'console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog random.trust_cpu=on' \
  -serial "file:$run/console" "${shares[@]}" -device virtio-serial-pci \
  -chardev "file,id=out,path=$run/out" -device virtserialport,chardev=out,name=out \
  -chardev "file,id=err,path=$run/err" -device virtserialport,chardev=err,name=err \
  </dev/null 2>"$run/qemu" &
qemu_pid=$!
rc=0; wait "$qemu_pid" || rc=$?
qemu_pid=''
for c in "${cats[@]}"; do # the readers end with qemu, unless it never opened the pipes
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$c" 2>/dev/null || break; sleep 0.1; done
done
if [ -s "$run/share/status" ]; then exit "$(cat "$run/share/status")"; fi
if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then die 124 "timed out after $limit s"; fi
echo "run-in-rdma-vm.sh: the guest ended without a status (qemu: $rc); last lines:" >&2
tail -n 20 "$run/qemu" "$run/console" >&2 || true
exit 125
