"""Runs the ranks of one host and reports what they print and how they end.

The launcher starts one agent per host, on its own host as a child and elsewhere through ssh, and sends it this
file's text and that of agent_host.py, so a remote host needs a Python and nothing else from us. Both use the standard
library alone.

Standard input carries, from the launcher: a length (8 digits) and a JSON description of the job; then commands of one
byte: ``T`` ends the ranks (SIGTERM, SIGKILL after the grace time), ``K`` kills them, ``J`` comes before a length and
a JSON object, as the first one, that concerns one worker of an elastic job: ``start`` it, ``tell`` it something,
``end`` it; ``I`` comes before a length and standard input for the ranks that have it (nothing: its end). End of file
means that the launcher is gone and acts like ``T``. Standard output carries, after a
greeting, frames to the launcher: kind (1 byte), rank and length (4 bytes each, big endian), payload. Kinds: ``o`` and
``e`` what a rank wrote, ``c`` why its program ends, ``r`` what its function returned, ``m`` what a worker told, ``x``
exit status, ``i`` ranks have taken their input, ``a`` the launcher's address that answers here, ``u`` that none does
and nothing is started, both with the host's name. In an elastic job the rank in a frame is the number that the launcher
gave the worker for its life.

Ranks live in sessions of their own. The agent adopts their orphans (it is a subreaper), so that it can end every
process that a rank started; ranks die with the agent (parent-death signal).
"""

import array
import contextlib
import errno
import fcntl
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

from horovod.runner.agent_host import count_cores, limit_met, load_prctl, memory_file, reason, signal_all

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CHUNK = 1 << 16
ATOMIC = 4096  # a pipe that is ready takes so much without a wait
MOST_PENDING = 1 << 20  # bytes that wait for the launcher before ranks that print have to wait, too
SAVE_SECONDS = 3.0  # for what the ranks recorded to be written
REACH_SECONDS = 3.0  # for a connection to one of the launcher's addresses


def read_exactly(count):
    """Return `count` bytes of standard input; ends the process when it closes before."""
    data = b""
    while len(data) < count:
        chunk = os.read(0, count - len(data))
        if not chunk:
            sys.exit(1)
        data += chunk
    return data


class Agent:
    """State of one host's ranks."""

    def __init__(self, job):
        self.job = job
        self.prctl = load_prctl()
        self.selector = selectors.DefaultSelector()
        self.urgent = selectors.DefaultSelector()  # what is heard also while ranks that print have to wait
        self.rank_of_pid = {}
        self.results = {}
        self.kill_at = None
        self.kill_one_at = {}  # by process id: workers that were asked to end
        self.channels = {}  # by number: where a worker of an elastic job is told something
        self.commands = b""
        self.inputs = {}  # by rank: the pipe to its standard input, and what waits to be written there
        self.has_input_ended = False
        self.early_input = []  # what came before every rank was there
        self.is_starting = True
        self.reached = {}  # the variables that name the launcher's address
        self.launcher_gone = False
        self.out = bytearray()  # frames that the launcher has not taken yet
        self.is_waiting = False  # for the launcher to take more
        self.stopping = False
        # Ranks get a descriptor, too, for where /proc shows no other processes; programs that they start may not.
        self.secret = memory_file(bytes.fromhex(job["secret"]) + b"\n")  # a file's last newline does not count

    # --- to the launcher ---

    def send(self, kind, rank, payload=b""):
        """Send the launcher one frame; bytes that it does not take at once wait."""
        if not self.launcher_gone:
            self.out += kind + struct.pack(">II", rank, len(payload)) + payload
            self.hand_on()

    def hand_on(self, seconds=0.0):
        """Write the bytes that wait, as long as the launcher takes them; a launcher that is gone ends the job."""
        while self.out and select.select([], [1], [], seconds)[1]:
            try:
                del self.out[: os.write(1, self.out[:ATOMIC])]
            except OSError:
                self.launcher_gone = True
                self.out.clear()
                self.terminate()
        if bool(self.out) != self.is_waiting:
            self.is_waiting = not self.is_waiting
            for selector in (self.selector, self.urgent):
                selector.register(1, selectors.EVENT_WRITE, "out") if self.is_waiting else selector.unregister(1)

    # --- starting ---

    def reach(self, hostname, port, addresses, variables):
        """Find the first of the launcher's addresses that answers from here, and tell the launcher."""
        for address in addresses:
            with contextlib.suppress(OSError):
                socket.create_connection((address, port), REACH_SECONDS).close()
                self.reached = dict.fromkeys(variables, address)
                self.send(b"a", 0, f"{hostname} {address}".encode())
                return True
        self.send(b"u", 0, hostname.encode())
        return False

    def start_all(self):
        """Start every rank of this host, if the launcher can be reached from there."""
        if "reach" in self.job and not self.reach(**self.job["reach"]):
            self.stopping = True
        for slot in self.job["slots"]:
            if select.select([0], [], [], 0.0)[0]:  # the launcher need not wait until many ranks are there to end them
                self.command()
            if self.stopping:
                break
            self.start(slot)
        self.is_starting = False
        for data in self.early_input:
            self.take_input(data)

    def start(self, slot):
        """Start one rank."""
        rank = slot["rank"]
        environment = self.common_environment()
        environment.update(slot["environment"])
        environment.update(self.reached)
        self.share_cores(environment, slot.get("sharers", len(self.job["slots"])))
        inherited = []
        report_read = result_read = channel = None
        command = slot.get("command", self.job["command"])
        try:
            inherited.append(memory_file(bytes.fromhex(self.job["secret"])))
            environment["HOROVOD_SECRET_FD"] = str(inherited[0])
            environment["HOROVOD_SECRET_FILE"] = f"/proc/{os.getpid()}/fd/{self.secret}"
            report_read, report_write = os.pipe()
            inherited.append(report_write)
            environment["_RODA_REPORT_FD"] = f"{report_write}:{os.fstat(report_write).st_ino}"
            if self.job["function"] is not None:
                result_read, result_write = os.pipe()
                inherited.append(result_write)
                inherited.append(memory_file(bytes.fromhex(self.job["function"])))
                environment["_RODA_TASK_FDS"] = f"{inherited[-1]},{result_write}"
            if self.job.get("elastic"):
                channel, theirs = socket.socketpair()
                inherited.append(theirs.detach())
                environment["_RODA_ELASTIC_FD"] = str(inherited[-1])
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if slot.get("stdin") else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=inherited,
                preexec_fn=self.bind_to_agent,
            )
        except OSError as error:
            text = f"horovodrun: cannot start {command[0]}: {reason(error)}\n"
            self.send(b"e", rank, text.encode())
            for fd in (report_read, result_read):
                if fd is not None:
                    os.close(fd)
            if channel is not None:
                channel.close()
            self.report_exit(rank, 127 if error.errno == errno.ENOENT else 126)
            return
        finally:
            for fd in inherited:
                os.close(fd)
        process.returncode = 0  # reaped by us, with all other children
        self.rank_of_pid[process.pid] = rank
        if process.stdin is not None:
            self.inputs[rank] = (os.dup(process.stdin.fileno()), bytearray())
            os.set_blocking(self.inputs[rank][0], False)
            process.stdin.close()
        for kind, pipe in ((b"o", process.stdout), (b"e", process.stderr)):
            self.watch(os.dup(pipe.fileno()), kind, rank)
            pipe.close()
        self.watch(report_read, b"c", rank)
        if result_read is not None:
            self.watch(result_read, b"r", rank)
        if channel is not None:
            self.watch(os.dup(channel.fileno()), b"m", rank)
            self.channels[rank] = channel

    def common_environment(self):
        """Return the variables that all ranks of this host get."""
        return {**(os.environ if self.job["add_to_environment"] else {}), **self.job["environment"]}

    def share_cores(self, environment, ranks):
        """Give a rank its share of the cores: frameworks take all of them, and ranks then slow each other down."""
        cores = count_cores()
        if ranks == 1 and cores == len(os.sched_getaffinity(0)):
            return  # what a framework takes by itself
        threads = environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // ranks)))
        if threads.isdigit() and int(threads) * ranks > cores:
            environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin keep those off that compute

    def bind_to_agent(self):
        """Die with the agent, and lead a process group (runs in the child before the command).

        Not a session: Linux schedules those as groups (autogroup), and a rank would yield its core to its own alone.
        """
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)

    def watch(self, fd, kind, rank):
        """Forward what comes out of `fd`; a function's result is collected and sent when the rank ends."""
        os.set_blocking(fd, False)
        self.selector.register(fd, selectors.EVENT_READ, (kind, rank))

    # --- ending ---

    def report_exit(self, rank, code):
        """Tell how a rank ended."""
        self.send(b"x", rank, struct.pack(">i", code))

    def terminate(self):
        """Ask every process that was started here to end; those that do not are killed after the grace time."""
        if self.kill_at is None:
            self.stopping = True
            self.kill_at = float("inf")
            asked, grace = time.monotonic(), self.job["grace"]
            self.save_records()
            # Saving is a part of that time, but leaves a second of it.
            self.kill_at = max(asked + grace, time.monotonic() + min(grace, 1.0))
            signal_all(signal.SIGTERM)

    def save_records(self):
        """Write what the ranks' flight recorders have, if the user wants it: a job that is ended may have hung."""
        environment = self.common_environment()
        folder = environment.get("RODA_FLIGHT_FOLDER")
        if not folder or not self.rank_of_pid:
            return
        code = "import sys; from horovod.observe import flight; flight.save(int(sys.argv[1]), sys.argv[2])"
        command = [sys.executable, "-c", code, str(os.getpid()), folder]
        # The agent runs on hosts where it is the only file of this package: it can't import horovod.child.
        null = subprocess.DEVNULL  # our own output is frames
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, stdin=null, stdout=null, env=environment, timeout=SAVE_SECONDS, check=False)

    def kill(self):
        """Kill every process that was started here and is left."""
        self.stopping = True
        self.kill_at = 0.0
        signal_all(signal.SIGKILL)

    def end_one(self, number, with_signal):
        """End one worker and what it started: at once by SIGKILL, else SIGKILL follows after the grace time."""
        for pid, rank in self.rank_of_pid.items():
            if rank == number:
                self.signal_group(pid, with_signal)
                if with_signal != signal.SIGKILL:
                    self.kill_one_at[pid] = time.monotonic() + self.job["grace"]

    @staticmethod
    def signal_group(pid, number):
        """Signal a worker's process group, whether or not the worker itself is still there."""
        with contextlib.suppress(OSError):  # all of it has ended
            os.killpg(pid, number)

    # --- the loop ---

    def reap(self):
        """Collect every child that ended; orphans of ranks are among them. Tells whether any is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            rank = self.rank_of_pid.pop(pid, None)
            if rank is not None:
                if rank in self.channels:
                    self.channels.pop(rank).close()
                    self.kill_one_at.pop(pid, None)
                    self.signal_group(pid, signal.SIGKILL)  # the others of its group would keep its memory and devices
                self.end_input(rank)
                self.forward_all(rank)  # a rank's last words come before its exit
                if self.results.get(rank):
                    self.send(b"r", rank, bytes(self.results[rank]))
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                limit = limit_met(-code, usage.ru_utime + usage.ru_stime)
                if limit is not None:
                    self.send(b"c", rank, json.dumps({"error": limit}).encode() + b"\n")
                self.report_exit(rank, code)

    def forward_all(self, rank=None):
        """Forward all that is in the pipes of one rank, or of all; text that comes meanwhile is left to the loop."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, tuple) and rank in (None, key.data[1]):
                there = array.array("i", [0])
                fcntl.ioctl(key.fd, termios.FIONREAD, there)
                count = 1
                while there[0] > 0 and count > 0:
                    count = self.forward(key)
                    there[0] -= count

    def forward(self, key):
        """Read once from a pipe, and return how much."""
        kind, rank = key.data
        try:
            data = os.read(key.fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(key.fd)
            os.close(key.fd)
        elif kind == b"r":
            self.results.setdefault(rank, bytearray()).extend(data)
        else:
            self.send(kind, rank, data)
        return len(data)

    def command(self):
        """Obey the launcher."""
        try:
            data = os.read(0, CHUNK)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(0)
            self.urgent.unregister(0)
            self.launcher_gone = True
            self.terminate()
        self.commands += data
        while self.commands:
            letter, length = self.commands[:1], 1
            if letter in (b"J", b"I"):
                if len(self.commands) < 9 or len(self.commands) < 9 + int(self.commands[1:9]):
                    return
                length = 9 + int(self.commands[1:9])
                body = self.commands[9:length]
                if letter == b"J":
                    self.obey(json.loads(body))
                else:
                    self.early_input.append(body) if self.is_starting else self.take_input(body)
            elif letter == b"K":
                self.kill()
            elif letter == b"T":
                self.terminate()
            self.commands = self.commands[length:]

    def obey(self, order):
        """Obey a command for one worker, unless it has ended meanwhile."""
        if "start" in order and not self.stopping:
            self.start(order["start"])
        elif "tell" in order and order["tell"] in self.channels:
            with contextlib.suppress(OSError):  # it has ended, or has not read for thousands of messages
                self.channels[order["tell"]].send(order["text"].encode() + b"\n", socket.MSG_DONTWAIT)
        elif "end" in order:
            self.end_one(order["end"], order["signal"])

    def take_input(self, data):
        """Take standard input for the ranks that have it."""
        self.has_input_ended = not data
        for rank, (_, waiting) in list(self.inputs.items()):
            waiting += data
            self.pass_input(rank)
        self.tell_taken()

    def pass_input(self, rank):
        """Write as much input as a rank takes; the loop calls again when the rank takes more."""
        pipe, waiting = self.inputs[rank]
        try:
            while waiting:
                del waiting[: os.write(pipe, waiting[:ATOMIC])]
        except BlockingIOError:
            if pipe not in self.selector.get_map():
                self.selector.register(pipe, selectors.EVENT_WRITE, ["input", rank])
            return
        except OSError:  # the rank reads no more
            self.end_input(rank)
            return
        if pipe in self.selector.get_map():
            self.selector.unregister(pipe)
            self.tell_taken()
        if self.has_input_ended:
            self.end_input(rank)

    def end_input(self, rank):
        """Close the pipe to a rank's standard input, where there is one."""
        if rank in self.inputs:
            pipe, _ = self.inputs.pop(rank)
            if pipe in self.selector.get_map():
                self.selector.unregister(pipe)
                self.tell_taken()
            os.close(pipe)

    def tell_taken(self):
        """Ask for more input once every rank has taken the last."""
        if not any(waiting for _, waiting in self.inputs.values()):
            self.send(b"i", 0)

    def run(self):
        """Work until every process is gone and all that they wrote is forwarded."""
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self.terminate())
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.prctl(PR_SET_CHILD_SUBREAPER, 1)
        for selector in (self.selector, self.urgent):
            selector.register(0, selectors.EVENT_READ, "command")
            selector.register(wake_read, selectors.EVENT_READ, "wake")
        self.start_all()
        while self.reap() or (self.job.get("elastic") and not self.stopping):
            if not self.rank_of_pid and not self.job.get("elastic"):
                self.terminate()  # the ranks ended by themselves: so must what they left behind
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self.kill()
            for pid in [pid for pid, when in self.kill_one_at.items() if time.monotonic() >= when]:
                del self.kill_one_at[pid]
                self.signal_group(pid, signal.SIGKILL)
            for key, _ in (self.selector if len(self.out) < MOST_PENDING else self.urgent).select(self.pause()):
                if key.data == "command":
                    self.command()
                elif key.data == "out":
                    self.hand_on()
                elif key.data == "wake":
                    os.read(wake_read, CHUNK)
                elif isinstance(key.data, list):
                    self.pass_input(key.data[1])
                else:
                    self.forward(key)
        self.forward_all()
        self.hand_on(None)

    def pause(self):
        """Seconds until something must be done that no descriptor announces."""
        next_kill = min(self.kill_one_at.values(), default=None) if self.kill_at is None else self.kill_at
        return None if next_kill is None else max(0.05, next_kill - time.monotonic())


def main():
    """Serve one job."""
    os.write(1, b"roda-agent ready\n")
    Agent(json.loads(read_exactly(int(read_exactly(8))))).run()


if __name__ == "roda_agent":  # see boot.py
    main()
