"""The flight recorders of a job's ranks: of processes that run, hang or are stopped, and from files.

Each rank of a host records its last operations in memory that all ranks of the host share (core/observe/
flight_recorder.h has the layout). It has no name in any file system: it is found through one of the processes, which
need not answer, and which only its owner and root may look at.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from horovod.common import stacks
from horovod.common.model import (
    MOST_TIME,
    Fault,
    check_fields,
    listed,
    modelled,
    of,
    parse,
    read_text,
    text,
    whole,
)  # fmt: skip

_SEGMENT = re.compile(r"/(memfd:roda-control|dev/shm/roda-control-\w+) \(deleted\)")
_ROOMS = struct.Struct("=8x8sQQQQQ")
_HEADER = struct.Struct("=8sIIiiiiQqqQQQ64s64sQ296s")
# Variables that all ranks of a job have alike, on every host; the most telling first.
_TELL_JOBS_APART = (
    "HOROVOD_GLOO_RENDEZVOUS_PORT", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "MASTER_PORT", "SLURM_JOB_ID",
)  # fmt: skip
HOST_CHARACTERS = 63  # of a host's name, in a recorder
_IS_DUMPED = 28  # in the header of a host's first rank: whether the host's dump is written
_MOST_BYTES = 1 << 29  # of a dump
_TRIES = 1000
_LINE_NUMBER = 208  # in every header: another number is another line; odd while that is written
_ENTRY = struct.Struct("=QqqqqQiiiiBBBB60s")


class NoRecordError(Exception):
    """There is nothing to read; the text says why."""


_MOST_32 = 2**31 - 1
_TIME = whole(-MOST_TIME - 1, MOST_TIME)


@dataclass
class Operation:
    """One operation of a rank. Times in ns of the host's clock; 0: not yet."""

    number: int = of(whole(1))
    name: str = of(text())
    collective: str = of(text(64))
    dtype: str = of(text(64))
    set: int = of(whole(-_MOST_32 - 1, _MOST_32))
    bytes: int = of(whole())
    submitted: int = of(_TIME)
    agreed: int = of(_TIME)
    launched: int = of(_TIME)
    ended: int = of(_TIME)
    code: int = of(whole(-_MOST_32 - 1, _MOST_32))
    awaited_rank: int = of(whole(-1, _MOST_32))
    missing_count: int = of(whole(0, _MOST_32))

    @property
    def key(self) -> tuple[int, str]:
        """The set and the name by which ranks agree on the operation."""
        return self.set, self.name

    @property
    def waits(self) -> bool:
        """Whether some rank has not submitted the operation."""
        return not (self.agreed or self.ended)

    @property
    def runs(self) -> bool:
        """Whether every rank has submitted the operation, and it has not ended here."""
        return bool(self.agreed) and not self.ended


@dataclass
class Rank:
    """The record of one rank."""

    rank: int = of(whole(0, _MOST_32))
    size: int = of(whole(1, _MOST_32))
    pid: int = of(whole(1, _MOST_32))
    generation: int = of(whole())
    host: str = of(text(255))
    transports: str = of(text(255))
    wall_offset: int = of(_TIME)
    started: int = of(_TIME)
    last: int = of(whole())
    ended: int = of(whole())
    ended_bytes: int = of(whole())
    operations: list[Operation] = of(listed(modelled(Operation), 1 << 20))
    taken: int = of(_TIME, default=0)
    process: str = of(text(255), default="")  # "running", "stopped", "in a debugger" or "gone": known here
    cause: str = of(text(), default="")  # what ended the job
    where: str = of(text(), default="")  # the line of the program at which it waits, or its main thread is
    stack: list[str] = of(listed(text(), 1 << 10), default_factory=list)  # of that thread, innermost frame first
    by_key: dict[tuple[int, str], Operation] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.rank >= self.size > 0:
            raise Fault(f"is {self.rank}", f"less than the size, which is {self.size}").below(".rank")
        self.operations.sort(key=lambda each: each.number)
        self.by_key = {each.key: each for each in self.operations}  # the latest of each name

    @property
    def is_halted(self) -> bool:
        """Whether its process does nothing any more, or until somebody lets it."""
        return self.process in ("gone", "stopped", "in a debugger")

    def seconds_since(self, moment: int) -> float:
        """Return how long ago, when this was taken, something happened."""
        return max(0, self.taken - moment) / 1e9


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace")


@cache
def _names() -> tuple[list[str], list[str]]:
    from horovod import _roda  # here, so that the build can ask the tools for their help without it

    return _roda.collective_names(), _roda.dtype_names()


def _name_in(table: list[str], number: int) -> str:
    return table[number] if number < len(table) else "?"


def _state_of(pid: int) -> str:
    import psutil  # here, so that the build can ask the tools for their help without it

    try:
        state = psutil.Process(pid).status()
    except psutil.Error:
        return "gone"
    if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return "gone"
    return {psutil.STATUS_STOPPED: "stopped", psutil.STATUS_TRACING_STOP: "in a debugger"}.get(state, "running")


def _operation(data: bytes) -> Operation | None:
    (
        number, submitted, agreed, launched, ended, size, group, code, missing, count,
        collective, dtype, length, cut, name,
    ) = _ENTRY.unpack(data)  # fmt: skip
    if number == 0:
        return None
    end = name[:length].decode(errors="replace")
    collectives, dtypes = _names()
    operation = Operation(
        number, f"…{end}" if cut else end, _name_in(collectives, collective), _name_in(dtypes, dtype), group, size,
        submitted, agreed, launched, ended, code, missing, count,
    )  # fmt: skip
    try:
        check_fields(operation)
    except Fault:  # it is written right now
        return None
    return operation


def _rank(room: bytes) -> Rank | None:
    if room[:8] != b"rodaflt3":
        return None
    if len(room) < _HEADER.size:
        raise NoRecordError(f"the memory of a rank has {len(room)} bytes; expected: at least {_HEADER.size}")
    (
        _, entries, size_of_entry, rank, size, pid, _, generation, wall, started, last, ended, sent, host, transports,
        line_number, line,
    ) = _HEADER.unpack_from(room)  # fmt: skip
    if size_of_entry != _ENTRY.size:
        raise NoRecordError("the processes run another version of Roda than this tool is from")
    if _HEADER.size + entries * size_of_entry > len(room):
        raise NoRecordError(f"the memory of rank {rank} says to have {entries} entries; it has no room for them")
    begins = range(_HEADER.size, _HEADER.size + entries * size_of_entry, size_of_entry)
    operations = [each for begin in begins if (each := _operation(room[begin : begin + size_of_entry])) is not None]
    try:
        told = Rank(
            rank, size, pid, generation, _text(host), _text(transports), wall, started, last, ended, sent, operations,
            time.clock_gettime_ns(time.CLOCK_MONOTONIC), where="" if line_number % 2 else _text(line),
        )  # fmt: skip
        check_fields(told)
    except Fault as fault:
        raise NoRecordError(f"the memory of a rank is none of a flight recorder: {fault}") from None
    told.process = _state_of(pid)
    return told


def _segments(pid: int) -> Iterator[Path]:
    """Yield the control segments that a process holds."""
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if _SEGMENT.fullmatch(os.readlink(each)):
                yield each
        except OSError:  # closed meanwhile
            continue


class _LiveHost:
    """The recorders of one host's ranks, mapped."""

    def __init__(self, segment: Path) -> None:
        self._segment = segment
        with segment.open("rb") as file:
            if os.fstat(file.fileno()).st_size < _ROOMS.size:
                raise NoRecordError("the process is about to begin or to end")
            self._memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        tag, self._begin, self._room, self._count, names, length = _ROOMS.unpack_from(self._memory)
        if tag != b"rodaroom":
            raise NoRecordError("the process runs another version of Roda than this tool is from")
        most = len(self._memory)
        if self._room < _HEADER.size or self._begin + self._room * self._count > most or names + length > most:
            raise NoRecordError("the memory that the process shares with its ranks is not laid out as theirs is")
        self.names = self._memory[names : names + length].decode(errors="replace").split()

    def claim(self) -> bool:
        """Tell whether nobody has written this host's dump, and have nobody else do so."""
        file = os.open(self._segment, os.O_RDWR)
        try:
            claimed = os.pread(file, 4, self._begin + _IS_DUMPED) == bytes(4)
            os.pwrite(file, struct.pack("=i", 1), self._begin + _IS_DUMPED)
        finally:
            os.close(file)
        return claimed

    def read(self) -> list[Rank]:
        """Return what every rank of the host has recorded so far."""
        begins = range(self._begin, self._begin + self._room * self._count, self._room)
        return [each for begin in begins if (each := _rank(self._copy(begin))) is not None]

    def _copy(self, begin: int) -> bytes:
        at = slice(begin + _LINE_NUMBER, begin + _LINE_NUMBER + 8)
        for _ in range(_TRIES):
            number, room = self._memory[at], self._memory[begin : begin + self._room]
            if self._memory[at] == number:  # else the line changed meanwhile
                break
        return room


def _with_stacks(ranks: list[Rank]) -> list[Rank]:
    told = stacks.ask(rank.pid for rank in ranks)
    for rank in ranks:
        rank.stack = told.get(rank.pid, [])
        line = stacks.line_of(rank.stack)
        if not rank.where or rank.where.endswith(f"/{line}"):
            rank.where = line
    return ranks


class LiveJob:
    """The recorders of a job's ranks: they can be read again and again, and after the processes' end."""

    def __init__(self, hosts: list[_LiveHost]) -> None:
        generation = max(rank.generation for host in hosts for rank in host.read())
        self._hosts = [host for host in hosts if any(rank.generation == generation for rank in host.read())]

    def read(self) -> list[Rank]:
        """Return what the ranks have recorded so far."""
        return sorted((rank for host in self._hosts for rank in host.read()), key=lambda rank: rank.rank)

    def look(self) -> list[Rank]:
        """Return what the ranks have recorded, with their stacks, for which they are asked, within a second."""
        return _with_stacks(self.read())

    def hosts(self) -> list[str]:
        """Return the names of all hosts of the job."""
        return sorted({name for host in self._hosts for name in host.names})

    def save(self, folder: Path) -> None:
        """Write the dump of each host that has none; while the processes live."""
        for host in self._hosts:
            # Read first: a rank that is ended, too, is gone once it finds the dump claimed.
            ranks = _with_stacks(host.read())
            if host.claim():
                write_dump(ranks, folder)


def _family(pid: int) -> list[int]:
    import psutil

    try:
        process = psutil.Process(pid)
        return [pid, *(each.pid for each in process.children(recursive=True))]
    except psutil.NoSuchProcess as error:
        raise NoRecordError(f"there is no process {pid}") from error


def _segments_of(pids: Iterable[int]) -> Iterable[Path]:
    found: dict[tuple[int, int], Path] = {}  # the ranks of a host hold the same one
    for pid in pids:
        try:
            for segment in _segments(pid):
                held = segment.stat()
                found[held.st_dev, held.st_ino] = segment
        except PermissionError as error:
            raise NoRecordError(f"process {pid} may be looked at by its owner and by root alone") from error
        except OSError:  # ended meanwhile
            continue
    return found.values()


def _open(pids: Iterable[int]) -> LiveJob | None:
    hosts = [host for host in map(_LiveHost, _segments_of(pids)) if host.read()]
    return LiveJob(hosts) if hosts else None


def ranks_by_memory(pids: Iterable[int]) -> Iterator[list[Rank]]:
    """Yield the ranks of each memory that some of the processes share, where there are any."""
    for segment in _segments_of(pids):
        try:
            ranks = _LiveHost(segment).read()
        except (NoRecordError, OSError):
            continue
        if ranks:
            yield ranks


def open_job(pid: int) -> LiveJob:
    """Open the recorders of the job that a process is a rank of, or the launcher of.

    Raises
    ------
    NoRecordError
        There is no such process, it may not be looked at, or no engine runs in it.
    """
    job = _open(_family(pid))
    if job is None:
        raise NoRecordError(f"process {pid} and those that it started are no ranks of a Roda job that runs here")
    return job


def _mark_of(pid: int) -> str | None:
    """Return what all processes of a rank's job, on every host, have in their environments, and those of no other."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    variables = dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)
    return next((f"{name}={variables[name]}" for name in _TELL_JOBS_APART if variables.get(name)), None)


def mark_of_job(ranks: Iterable[Rank]) -> str:
    """Return what tells, on other hosts, the ranks of the job that these ranks of this host are in.

    Raises
    ------
    NoRecordError
        The ranks' environments tell nothing.
    """
    mark = next((mark for rank in ranks if (mark := _mark_of(rank.pid))), None)
    if mark is None:
        raise NoRecordError("the ranks' environments have nothing that tells their job from others on another host")
    return mark


def open_marked(mark: str) -> LiveJob:
    """Open the recorders of the ranks here that have this in their environments.

    Raises
    ------
    NoRecordError
        There are none.
    """
    job = _open(pid for name in os.listdir("/proc") if name.isdigit() and _mark_of(pid := int(name)) == mark)
    if job is None:
        raise NoRecordError(f"no ranks of a Roda job run here with {mark}")
    return job


def as_dict(ranks: Iterable[Rank]) -> dict[str, object]:
    """Return the content of a dump, as the engine writes it."""
    told = []
    for rank in ranks:
        fields = asdict(rank)
        del fields["by_key"]
        told.append(fields)
    return {"roda_flight": 1, "taken": max((rank["taken"] for rank in told), default=0), "ranks": told}


def write_dump(ranks: Sequence[Rank], folder: Path) -> None:
    """Write what a host's ranks have recorded into a folder, which is made, under the name that the engine gives it."""
    folder.mkdir(parents=True, exist_ok=True)
    host = ranks[0].host.replace("/", "_")  # as the memory of somebody else's processes may say
    path = folder / f"roda-flight.{host}.{ranks[0].pid}.{ranks[0].generation}.json"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(as_dict(ranks), file)


def save(pid: int, folder: str) -> None:
    """Write dumps before a job that may hang is ended; dumps that its engine has written stay."""
    try:
        open_job(pid).save(Path(folder))
    except (NoRecordError, OSError) as error:
        if not any(Path(folder).glob("roda-flight.*.json")):  # else the ranks are gone, and their engines wrote them
            print(f"The flight recorder: {error}", file=sys.stderr)


@dataclass
class _Dump:
    ranks: list[Rank] = of(listed(modelled(Rank), 1 << 20))
    taken: int = of(_TIME)
    cause: str = of(text(), default="")


@dataclass
class _Version:
    roda_flight: int = of(whole())


_VERSION, _DUMP = modelled(_Version), modelled(_Dump)


def ranks_of(dump: str) -> list[Rank]:
    """Return the ranks of a dump's text.

    Raises
    ------
    NoRecordError
        The text is no dump; the text says which field is wrong.
    """
    try:
        told = parse(dump)
        if _VERSION.take(told).roda_flight != 1:
            raise NoRecordError("it is of another version of Roda than this tool is from")
        read: _Dump = _DUMP.take(told)
    except Fault as error:
        raise NoRecordError(f"it is no dump of a flight recorder: {error}") from error
    for rank in read.ranks:  # the engine's dumps have these once
        rank.taken, rank.cause = rank.taken or read.taken, rank.cause or read.cause
    return read.ranks


def read_files(path: Path) -> list[Rank]:
    """Return the ranks of a dump, or of all dumps in a folder: of the latest generation.

    Raises
    ------
    OSError
        A file can't be read.
    NoRecordError
        There are none, or what is there is none.
    """
    files = sorted(filter(Path.is_file, path.glob("roda-flight.*.json"))) if path.is_dir() else [path]
    ranks: dict[tuple[int, int], Rank] = {}
    for file in files:
        try:
            ranks.update({(rank.generation, rank.rank): rank for rank in ranks_of(read_text(file, _MOST_BYTES))})
        except (NoRecordError, Fault) as error:
            raise NoRecordError(f"{file} can't be read: {error}") from error
    if not ranks:
        raise NoRecordError(f"{path} has no dumps (roda-flight.*.json)")
    latest = max(generation for generation, _ in ranks)
    return [rank for (generation, _), rank in sorted(ranks.items()) if generation == latest]
