"""Stands for a Python interpreter: asks the fork server for a process, and stands in its place.

Run as a program by `python -I -S`, so that it starts in a few milliseconds; it imports no package.

    fork_client.py SOCKET -m MODULE [ARGUMENT …]
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

#: Bytes of every number that is sent; also those before a text, which hold its length.
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
    """Be the process `python *arguments` that the fork server makes.

    Become it where there is no fork server, and where no module is to run: Spark asks for the version so.
    """
    if arguments[:1] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    text = json.dumps([arguments[1:], dict(os.environ), os.getcwd()]).encode()
    fork_server = socket.socket(socket.AF_UNIX)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is a process to pass them on to
    try:
        fork_server.connect(path)
        socket.send_fds(fork_server, [len(text).to_bytes(NUMBER, "big")], [0, 1, 2])
        fork_server.sendall(text)
        pid = int.from_bytes(received(fork_server, NUMBER), "big")
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        print(f"no fork server ({error}), so {arguments} starts by itself", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, *arguments])
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    try:
        sys.exit(int.from_bytes(received(fork_server, NUMBER), "big"))
    except OSError:  # the job is over, and with it the fork server; the process has noticed by itself
        sys.exit(1)


if __name__ == "__main__":
    launch(sys.argv[1], sys.argv[2:])
