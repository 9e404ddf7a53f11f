"""Life cycle and queries, the same for every framework: one process has one engine."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from horovod import _roda
from horovod.common import mpi_comm, program_end, rank_process, stacks, stragglers, util
from horovod.common.exceptions import HorovodInternalError
from horovod.common.mpi_comm import was_launched_by_mpi
from horovod.common.operations import (
    NOT_INITIALIZED,
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
    forget_handles,
)
from horovod.common.process_sets import (
    ProcessSet,
    bind_registered_sets,
    bind_static_process_sets,
    find_duplicate,
    forget_process_sets,
)
from horovod.runner.elastic.worker import notification_manager

program_end.watch()

_NEEDS_COMMUNICATOR = "Process sets made from MPI communicators need an MPI communicator as comm."


def _save_when_terminated() -> None:
    """Write the flight recorders, if the user wants them, when a scheduler that tells nobody ends the ranks."""
    folder = os.environ.get("RODA_FLIGHT_FOLDER")
    if not folder or threading.current_thread() is not threading.main_thread():
        return
    owner = os.getpid()

    def save_and_end(number: int, frame: object) -> None:
        del frame
        if os.getpid() == owner:  # no forked child, whose end says nothing of the job
            from horovod.observe import flight  # costs nothing before

            flight.save(owner, folder)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, save_and_end)


def _world_ranks(comm: Any) -> list[int]:
    if comm is None or mpi_comm.is_communicator(comm):
        return []
    if isinstance(comm, Sequence) and all(isinstance(rank, int) for rank in comm):
        return list(comm)
    raise ValueError(
        f"Invalid type of argument comm. Expected list of rank integers or mpi4py.MPI.Comm object, got {type(comm)}."
    )


def _communicator(comm: Any) -> int | None:
    """Return the communicator's Fortran handle, which is the same whatever MPI this is."""
    if not mpi_comm.is_communicator(comm):
        return None
    if not util.mpi_built():
        raise ValueError(
            "Horovod has not been built with MPI support (HOROVOD_WITH_MPI=1): the transport mpi is not usable here, "
            "and `roda-info --plugins` prints the reason. Without it hvd.init() takes no MPI communicator."
        )
    return int(comm.py2f())


def _check_duplicates(process_sets: Sequence[ProcessSet], world: ProcessSet | None = None) -> None:
    index = find_duplicate(process_sets, world)
    if index is not None:
        raise ValueError(
            f"Horovod could not be initialized because process_sets entry number {index} is a duplicate: "
            f"{process_sets[index]}"
        )


def _refuse_forked_child() -> None:
    try:
        _roda.init([], [])  # it runs, so this does nothing where the engine is this process's own
    except (HorovodInternalError, ValueError) as error:
        raise ValueError(f"Horovod initialization failed. {error}") from None


def _bind_while_running(process_sets: Sequence[ProcessSet], comm: Any) -> None:
    unknown = [process_set for process_set in process_sets if process_set.ranks is None]
    if unknown and not mpi_comm.is_communicator(comm):
        raise NotImplementedError(_NEEDS_COMMUNICATOR)
    for process_set in filter(lambda entry: mpi_comm.is_member(entry.mpi_comm), unknown):
        process_set.ranks = mpi_comm.ranks_within(process_set.mpi_comm, comm)
    bind_registered_sets(process_sets)


class HorovodBasics:
    """Wrapper of the engine's life cycle, as the framework modules re-export it.

    The parameters name a library in Horovod; here they are accepted and ignored, because there is one engine.
    """

    Average, Sum, Adasum, Min, Max, Product = Average, Sum, Adasum, Min, Max, Product

    def __init__(self, pkg_path: str = "", *args: str) -> None:
        del pkg_path, args

    # --- life cycle ---

    def init(self, comm: Any = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
        """Start the engine; collective over the job. While it runs, only look up the sets that are given.

        Parameters
        ----------
        comm : None, sequence of int, or mpi4py.MPI.Comm
            Who takes part: None for all, ranks in MPI's world, or the processes of a communicator.
        process_sets : None, sequence of ProcessSet, or "dynamic"
            Sets to register at once, the same on all ranks; "dynamic" allows to add and remove sets later.

        Raises
        ------
        ValueError
            When an argument is wrong, the engine could not start, it runs and does not know one of the sets, or it
            runs in the process that this one was forked from; the text says why.
        NotImplementedError
            For process sets made from a communicator, when `comm` is none.
        """
        sets: list[ProcessSet] = []
        if isinstance(process_sets, str):
            if process_sets.lower() != "dynamic":
                raise ValueError(f"process_sets must be a list of ProcessSet or 'dynamic', got {process_sets!r}.")
            if not _roda.is_initialized():
                os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        elif process_sets is not None:
            sets = list(process_sets)
        ranks = _world_ranks(comm)
        rank_process.refuse_child()
        if _roda.is_initialized():
            _refuse_forked_child()
            _bind_while_running(sets, comm)
            return
        communicator = _communicator(comm)
        if communicator is not None:
            lists = mpi_comm.resolve_process_sets(sets, comm)
        else:
            if any(process_set.ranks is None for process_set in sets):
                raise NotImplementedError(_NEEDS_COMMUNICATOR)
            _check_duplicates(sets)
            lists = [list(process_set.ranks or ()) for process_set in sets]
        try:
            with _ended_by_interrupt():
                self._start(ranks, lists, communicator)
        except (HorovodInternalError, ValueError) as error:
            raise ValueError(f"Horovod initialization failed. {error}") from None
        rank_process.mark(_roda.rank(), _roda.size())
        program_end.install()
        stacks.offer()
        stragglers.count_collections()
        _save_when_terminated()
        if communicator is None:
            try:
                _check_duplicates(sets, ProcessSet(range(_roda.size())))
            except ValueError:
                _roda.shutdown()
                raise
        bind_static_process_sets(sets)
        self._compare_threads_with_cores()

    @staticmethod
    def _start(ranks: list[int], sets: list[list[int]], communicator: int | None) -> None:
        channel = None if rank_process.is_alone() else notification_manager.channel()
        if channel is None:
            _roda.init(ranks, sets, communicator, rank_process.next_engine())
        else:
            channel.join(
                lambda generation: _roda.init(ranks, sets, communicator, generation), as_guest=not (ranks or sets)
            )

    def _compare_threads_with_cores(self) -> None:
        """Warn, once a host, where compute threads outnumber cores: ranks slow each other down many times then."""
        count = getattr(sys.modules.get("torch"), "get_num_threads", None)
        given = os.environ.get("OMP_NUM_THREADS", "")
        threads = count() if count is not None else int(given) if given.isdigit() else 1
        ranks, cores = self.local_size(), _roda.host_cores()
        share = max(1, cores // ranks)
        if self.local_rank() == 0 and ranks > 1 and threads > share:
            logging.getLogger("horovod").warning(
                "%d ranks with %d compute threads each share the %d cores of this host and slow each other down: set "
                "OMP_NUM_THREADS=%d, as horovodrun does unless it is set.",
                *(ranks, threads, cores, share),
            )

    def shutdown(self) -> None:
        """Stop the engine on every rank of the job and drop all handles; :meth:`init` may follow again."""
        error = sys.exc_info()[1]  # ``finally: hvd.shutdown()``
        if error is None and _roda.is_initialized():
            program_end.leave()
        _roda.shutdown(None if error is None else f"called hvd.shutdown() after {program_end.describe(error)}")
        stacks.withdraw()
        stragglers.count_no_collections()
        rank_process.unmark()
        forget_process_sets()
        forget_handles()

    def is_initialized(self) -> bool:
        """Tell whether the engine runs."""
        return _roda.is_initialized()

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Write a timeline to `file_path` from now on; rank 0 writes, all ranks must have HOROVOD_TIMELINE set.

        With `mark_cycles` the engine's cycles are marked in it.
        """
        self._check_timeline(_roda.start_timeline(os.fspath(file_path), int(mark_cycles)))

    def stop_timeline(self) -> None:
        """Close the timeline's file."""
        self._check_timeline(_roda.stop_timeline())

    def reset_wire_residuals(self) -> None:
        """Forget what messages in ``Compression.int8`` and ``int4`` have lost, which is added to what is sent next.

        To be called on all ranks, where gradients to come have nothing to do with those before.
        """
        if _roda.reset_wire_residuals() < 0:
            raise ValueError(NOT_INITIALIZED)

    def on_straggler(self, call: Callable[[stragglers.Straggler], object]) -> None:
        """Have a function told of each rank that keeps the others waiting in most steps; on any rank, before init too.

        Parameters
        ----------
        call : callable
            Called on a thread of Horovod's, with a :class:`~horovod.common.stragglers.Straggler`. A rank is
            told of once, again after it has been better, and each five minutes while it lasts. An exception is logged.
        """
        stragglers.tell(call)

    @staticmethod
    def _check_timeline(code: int) -> None:
        if code == -1:
            raise ValueError(NOT_INITIALIZED)
        if code == -2:
            raise ValueError("Set HOROVOD_TIMELINE=DYNAMIC to enable dynamic timeline usage.")

    # --- topology ---

    @staticmethod
    def _known(value: int) -> int:
        if value < 0:
            raise ValueError(NOT_INITIALIZED)
        return value

    def _number(self, value: int, variable: str) -> int:
        # The engine of a worker that sets up beside an elastic job is alone.
        return int(os.environ[variable]) if notification_manager.is_guest() else self._known(value)

    def rank(self) -> int:
        """Return this process's rank."""
        return self._number(_roda.rank(), "HOROVOD_RANK")

    def size(self) -> int:
        """Return the number of processes."""
        return self._number(_roda.size(), "HOROVOD_SIZE")

    def local_rank(self) -> int:
        """Return this process's rank among those of its host."""
        return self._number(_roda.local_rank(), "HOROVOD_LOCAL_RANK")

    def local_size(self) -> int:
        """Return the number of processes on this host."""
        return self._number(_roda.local_size(), "HOROVOD_LOCAL_SIZE")

    def cross_rank(self) -> int:
        """Return this host's index among the hosts that have a process with this local rank."""
        return self._number(_roda.cross_rank(), "HOROVOD_CROSS_RANK")

    def cross_size(self) -> int:
        """Return the number of hosts that have a process with this local rank."""
        return self._number(_roda.cross_size(), "HOROVOD_CROSS_SIZE")

    def is_homogeneous(self) -> bool:
        """Tell whether every host runs the same number of processes."""
        self._known(_roda.rank())
        return _roda.is_homogeneous()

    # --- what is there ---

    def mpi_threads_supported(self) -> bool:
        """Tell whether MPI may be called from several threads."""
        self._known(_roda.rank())
        if not self.mpi_enabled():
            raise ValueError(
                "MPI is not enabled: this job does not run over MPI. Start it by horovodrun --mpi, mpirun or srun."
            )
        return os.environ.get("HOROVOD_MPI_THREADS_DISABLE", "") in ("", "0")

    def mpi_enabled(self) -> bool:
        """Tell whether this job was asked to run over MPI, or was started by it, and can."""
        names = {os.environ.get(name, "").lower() for name in ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS")}
        by_mpirun = names == {""} and "HOROVOD_RANK" not in os.environ and was_launched_by_mpi()
        return ("mpi" in names or by_mpirun) and self.mpi_built()

    def mpi_built(self) -> bool:
        """Tell whether the MPI transport is usable here."""
        return util.mpi_built()

    def gloo_enabled(self) -> bool:
        """Tell whether the Gloo transport may serve this job."""
        return (os.environ.get("HOROVOD_CPU_OPERATIONS") or "gloo").lower() == "gloo" and self.gloo_built()

    def gloo_built(self) -> bool:
        """Tell whether the Gloo transport is usable here."""
        return util.gloo_built()

    def nccl_built(self) -> int:
        """Return a non-zero number when the NCCL transport is usable here, else 0."""
        return util.nccl_built()

    def ddl_built(self) -> bool:
        """IBM's DDL is not supported."""
        return util.ddl_built()

    def ccl_built(self) -> bool:
        """Tell whether the oneCCL transport is usable here."""
        return util.ccl_built()

    def cuda_built(self) -> bool:
        """Tell whether collectives can work on CUDA memory here."""
        return _roda.cuda_usable()

    def rocm_built(self) -> bool:
        """Never: AMD's GPUs, where they can be used, count as CUDA's, as in PyTorch."""
        return False


@contextlib.contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process: the engine's start waits for other ranks, and Python's handler would wait with it."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
