"""The options of a job."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Settings:
    """Options of a static job, whichever way they were given.

    Attributes
    ----------
    num_proc : int
        Processes to start: exactly this many.
    hosts : str
        ``host:slots,host:slots``.
    nics : list of str
        Interfaces that the user named, in order; empty when none were.
    fold : bool
        Print equal lines of several ranks once.
    stdin : str or None
        Rank that gets the launcher's standard input, or ``all``.
    debug : int or None
        Rank that waits for a debugger.
    remote_shell : str or None
        Command that stands in for ssh: called as ``<command> <host> <shell command>``.
    start_timeout : float
        Seconds for reaching the hosts.
    termination_grace : float
        Seconds between SIGTERM and SIGKILL.
    extra_mpi_args : str or None
        Appended to mpirun's arguments.
    binding_args : str or None
        Instead of our choice of mpirun's binding arguments.
    tcp_flag : bool
        Without InfiniBand.
    key, run_func_mode, elastic
        Kept for code that reads them: nothing here does.
    """

    num_proc: int = None  # type: ignore[assignment]  # a program of Horovod may set both later
    hosts: str = None  # type: ignore[assignment]
    verbose: int = 0
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    nics: list[str] = field(default_factory=list)
    output_filename: str | None = None
    prefix_output_with_timestamp: bool = False
    fold: bool = False
    stdin: str | None = None
    debug: int | None = None
    remote_shell: str | None = None
    start_timeout: float = 30.0
    termination_grace: float = 5.0
    extra_mpi_args: str | None = None
    binding_args: str | None = None
    tcp_flag: bool = False
    key: bytes | None = field(default=None, repr=False)
    run_func_mode: bool = False
    elastic: bool = False

    def __post_init__(self) -> None:
        self.nics = self.nics or []
        self.start_timeout = 30.0 if self.start_timeout is None else self.start_timeout


BaseSettings = Settings  # Horovod's name of what jobs of all kinds have
