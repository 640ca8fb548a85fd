"""A process with everything imported, of which Spark's Python processes are forked.

Spark starts six Python processes before the first batch has read an event: planners of the source and of the
stages, and the parent of the workers. Each would import the same for a second, Spark itself from an archive
without compiled modules. Instead one process imports it all while the JVM starts, and forks:

    Spark ──starts `python -m module`──▶ client ──arguments, variables, files──▶ fork server ──fork──▶ module

The client stands for the interpreter (`PYSPARK_PYTHON`). It hands on its arguments and files, lives as long
as the process that was forked, passes signals on and ends with its exit code. The fork server ends with the
process that started it, of which it holds the end of a pipe.
"""

from __future__ import annotations

# pyright: reportUnusedImport=false
import gc
import json
import os
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, cast

from tideglass.spark.session import fork_client

if TYPE_CHECKING:
    import io

#: A process is known to the system by no more of its name.
_NAME_CHARACTERS = 15

_PROGRAM = """\
#!/bin/sh
# Stands for {python}. Written by tideglass/spark/session/fork_server.py.
exec {python} -I -S {client} {socket} "$@"
"""


def start_fork_server(log: IO[bytes] | None = None) -> Path | None:
    """Start a fork server, which prints to `log`; returns the program that stands for the interpreter.

    None where processes cannot fork.
    """
    if not hasattr(os, "fork"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="tideglass-fork-server-"))  # nobody else may enter it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(64)  # requests from now on are answered once the imports are done
        # Nobody else holds our end of it, so the fork server sees this process end, however that is.
        end, _ = os.pipe()
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno()), str(end), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(listener.fileno(), end),
            # As Spark has it for all its processes: texts must hash alike in them.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        os.close(end)
    program = folder / "python"
    words = {"python": sys.executable, "client": fork_client.__file__, "socket": str(folder / "socket")}
    program.write_text(_PROGRAM.format(**{name: shlex.quote(word) for name, word in words.items()}))
    program.chmod(0o700)
    return program


class ForkServer:
    """Serves clients until the process that started it ends."""

    def __init__(self, listener: socket.socket, end: int) -> None:
        self._listener = listener
        self._end = end
        self._children: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    def serve(self) -> Callable[[], None] | None:
        """None when it is over; in a process that was forked, what that is to do."""
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno())
        signal.signal(signal.SIGCHLD, _nothing)
        for watched in (self._listener, self._end, woken):
            self._selector.register(watched, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._end:
                    return None
                if key.fileobj is woken:
                    woken.recv(64)
                    self._reap()
                elif key.fileobj is self._listener:
                    self._selector.register(self._listener.accept()[0], selectors.EVENT_READ)
                else:
                    connection = cast("socket.socket", key.fileobj)
                    if connection in self._children.values():
                        self._kill(connection)
                        continue
                    work = self._fork(connection)
                    if work is not None:
                        signal.set_wakeup_fd(-1)
                        woken.close()
                        wakes.close()
                        return work

    def _fork(self, connection: socket.socket) -> Callable[[], None] | None:
        """Reads a client's request; in the process that is forked, returns what to do."""
        self._selector.unregister(connection)
        files: list[int] = []
        try:
            length, files, _, _ = socket.recv_fds(connection, fork_client.NUMBER, 3)
            text = fork_client.received(connection, int.from_bytes(length, "big"))
        except OSError:  # it has ended in the middle of it
            connection.close()
            return None
        arguments, environment, folder = json.loads(text)
        pid = os.fork()
        if pid == 0:
            self._leave(connection, files)
            return lambda: run(arguments, environment, folder)
        for number in files:
            os.close(number)
        self._children[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        with suppress(OSError):  # if it has ended, that will be read from it
            connection.sendall(pid.to_bytes(fork_client.NUMBER, "big"))
        return None

    def _leave(self, connection: socket.socket, files: Sequence[int]) -> None:
        """In a process that was forked: let go of the fork server's files, take those of the client."""
        self._selector.close()
        for each in (self._listener, connection, *self._children.values()):
            each.close()
        os.close(self._end)
        for standard, number in enumerate(files):
            os.dup2(number, standard)
            os.close(number)

    def _kill(self, connection: socket.socket) -> None:
        """A client has ended before its process, so it was killed, and that was meant for the process."""
        pid = next(pid for pid, each in self._children.items() if each is connection)
        os.kill(pid, signal.SIGKILL)
        self._forget(pid)

    def _reap(self) -> None:
        """Report ended processes to their clients."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid in self._children:
                    code = os.waitstatus_to_exitcode(status)
                    with suppress(OSError):
                        self._children[pid].sendall(
                            (code if code >= 0 else 128 - code).to_bytes(fork_client.NUMBER, "big")
                        )
                    self._forget(pid)

    def _forget(self, pid: int) -> None:
        connection = self._children.pop(pid)
        self._selector.unregister(connection)
        connection.close()


def _nothing(_: int, __: FrameType | None) -> None:
    """A signal without a handler would not wake anybody."""


def run(arguments: Sequence[str], environment: dict[str, str], folder: str) -> None:
    """Be `python -m *arguments`, in a process that was forked.

    Modules are looked for where the fork server does, which has the environment of the job's own process.
    """
    module, *rest = arguments
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream in (sys.stdout, sys.stderr):  # PYTHONUNBUFFERED, which Spark sets
        cast("io.TextIOWrapper", stream).reconfigure(write_through=True)
    _name(rest[0] if rest else module)
    sys.argv = [module, *rest]
    sys.modules.pop(module, None)  # or there would be a warning that it runs a second time
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _code_of(work: Callable[[], None]) -> int:
    """Do it; the exit code the interpreter would end with."""
    try:
        work()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _name(module: str) -> None:
    """Name the process in lists of processes, on Linux; its command line is the fork server's."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(module.rpartition(".")[2][:_NAME_CHARACTERS])


def _import_all() -> None:
    """What the processes need: imported once, in memory that all of them share."""
    import pyspark.sql.streaming.python_streaming_source_runner
    import pyspark.sql.streaming.transform_with_state_driver_worker
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.worker  # noqa: F401

    import tideglass.spark.session.worker_daemon  # noqa: F401

    gc.collect()
    gc.freeze()  # or a collection would write to every object, and so copy the memory that is shared


def main(listener: str, end: str, folder: str) -> None:
    """Serve on these open files, then remove the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the job, which decides what it means
    _import_all()
    work = ForkServer(socket.socket(fileno=int(listener)), int(end)).serve()
    code = 0
    if work is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        code = _code_of(work)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # tearing down what was imported takes longer than the work of a planner


if __name__ == "__main__":
    main(*sys.argv[1:])
