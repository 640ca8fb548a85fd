"""What a run says on its terminal of outputs that do not take their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from tideglass.job.report.status import OutputStatus, Status


class OutputNotices:
    """Prints a line when an output is dead, and when it is alive again; called with every status of a run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._dead: dict[str, OutputStatus] = {}

    def __call__(self, status: Status) -> None:
        dead = {each.output: each for each in status.outputs if each.next_try is not None}
        for name, each in dead.items():
            if name not in self._dead:
                self._print(f"output {name} is dead, the batch waits for it: {each.last_error}", "yellow")
        for name in self._dead.keys() - dead.keys():
            self._print(f"output {name} is alive again", "green")
        self._dead = dead

    def _print(self, text: str, style: str) -> None:
        self._console.print(text, style=style, markup=False, soft_wrap=True)
