"""The process in which JavaScript runs: `python -I sandbox_host.py MEGABYTES`, a line per request and answer.

It imports nothing of this project, so that it starts quickly. What V8 does when memory is short is to end the
process, and some of its own loops cannot be interrupted: here that costs nothing but this process.

    request   R<code>                     evaluate; nothing is answered but an error
              S<seconds> <slice> <code>   evaluate and go on until there is a result, telling of every slice
    answer    P<place>                    where the work is
              V<text>                     the result
              E<text>                     the error of a script
              T<place>                    a call did not end in time; the process ends
              M<place>                    there is not enough memory; the process ends
"""

import json
import resource
import sys
from typing import Any

from py_mini_racer import JSEvalException, JSOOMException, JSTimeoutException, MiniRacer, init_mini_racer

#: Beside what scripts hold: of the garbage collector and of texts on their way.
_OVERHEAD_BYTES = 128 << 20


def _answer(kind: str, text: object) -> None:
    sys.stdout.buffer.write(f"{kind}{text}\n".encode())
    sys.stdout.buffer.flush()


def _limit_memory(megabytes: int) -> None:
    """What is beside V8's own heap, such as typed arrays, is limited by the system, where it can."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/status") as status:
            held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    except (OSError, StopIteration):
        return
    most = held + (megabytes << 20) + _OVERHEAD_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _place(context: Any) -> str:
    try:
        return str(context.eval("JSON.stringify(tideglass.at)", timeout_sec=1))
    except JSEvalException:
        return "null"


def _work(context: Any, seconds: float, slice_ms: float, code: str) -> None:
    """Evaluates, and asks for more until there is a result."""
    # A slice ends with the call during which its time is over.
    wait = seconds + slice_ms / 1000
    context.eval(f"tideglass.slice = {slice_ms}; 0")
    result = context.eval(code, timeout_sec=wait)
    while result is None:
        _answer("P", _place(context))
        result = context.eval("tideglass.more()", timeout_sec=wait)
    context.eval("0", timeout_sec=wait)  # what the script has left to be done later
    _answer("V", result)


def main(megabytes: int) -> None:
    init_mini_racer(flags=("--single-threaded", f"--max-old-space-size={megabytes}"))
    context: Any = MiniRacer()
    context.set_hard_memory_limit(megabytes << 20)
    _limit_memory(megabytes)
    for line in sys.stdin.buffer:
        kind, request = chr(line[0]), line[1:].decode()
        try:
            if kind == "R":
                context.eval(json.loads(request))
                _answer("V", "")
            else:
                seconds, slice_ms, code = request.split(" ", 2)
                _work(context, float(seconds), float(slice_ms), json.loads(code))
        except JSTimeoutException:
            _answer("T", _place(context))
            return
        except JSOOMException:
            _answer("M", "null")
            return
        except JSEvalException as error:
            _answer("E", json.dumps(str(error)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
