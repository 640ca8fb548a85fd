"""Stands for a Python interpreter: asks the nursery for a process (see `nursery`), and is there in its place.

Run as a program by `python -I -S`, so that it starts in a few milliseconds; it imports no package.

    launcher.py SOCKET -m MODULE [ARGUMENT …]
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

#: Bytes of every number that is sent; also those before a text, which say how long it is.
NUMBER = 4
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def received(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises ConnectionError when the other side ends before."""
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ConnectionError("it has ended")
        found += more
    return found


def launch(path: str, arguments: list[str]) -> None:
    """Be the process `python *arguments` that the nursery makes.

    Become it where there is no nursery, and where it is no module that runs: Spark asks for the version so.
    """
    if arguments[:1] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    text = json.dumps([arguments[1:], dict(os.environ), os.getcwd()]).encode()
    nursery = socket.socket(socket.AF_UNIX)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is a process to pass them on to
    try:
        nursery.connect(path)
        socket.send_fds(nursery, [len(text).to_bytes(NUMBER, "big")], [0, 1, 2])
        nursery.sendall(text)
        pid = int.from_bytes(received(nursery, NUMBER), "big")
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        print(f"no nursery ({error}), so {arguments} starts by itself", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, *arguments])
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    try:
        sys.exit(int.from_bytes(received(nursery, NUMBER), "big"))
    except OSError:  # the job is over, and with it the nursery; the process has heard of that by itself
        sys.exit(1)


if __name__ == "__main__":
    launch(sys.argv[1], sys.argv[2:])
