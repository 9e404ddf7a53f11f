"""What a job was asked to be."""

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
    tcp : bool
        Without InfiniBand.
    """

    num_proc: int
    hosts: str
    verbose: int = 0
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    nics: list[str] = field(default_factory=list)
    output_filename: str | None = None
    prefix_output_with_timestamp: bool = False
    remote_shell: str | None = None
    start_timeout: float = 30.0
    termination_grace: float = 5.0
    extra_mpi_args: str | None = None
    binding_args: str | None = None
    tcp: bool = False
