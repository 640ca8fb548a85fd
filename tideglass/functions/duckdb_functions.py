"""What functions need inside DuckDB: SQL macros, and Python functions over Arrow columns."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function over whole columns. It sees NULLs and answers with a column of the same length.

    A query's check loads its module too, so it imports Arrow only when the function is called.

    name: its name in SQL
    evaluate: takes a column per parameter, returns one
    params: DuckDB's types of the parameters
    returns: DuckDB's type of the result
    """

    name: str
    evaluate: Callable[..., pa.Array]
    params: tuple[str, ...]
    returns: str


_installed: set[tuple[int, int]] = set()  # process and connection; holding the connection would keep it open


def install(
    duck: duckdb.DuckDBPyConnection,
    catching: duckdb.DuckDBPyConnection,
    macros: Sequence[str],
    functions: Sequence[PythonFunction],
) -> None:
    """Makes macros and functions known to a connection and to the one that catches errors, once.

    They share the functions; macros are each one's own.
    """
    mark = (os.getpid(), id(duck))
    if mark in _installed:
        return
    for function in functions:
        # DuckDB would look the annotations up, and Arrow is no name in the modules of the functions.
        function.evaluate.__annotations__.clear()
        duck.create_function(
            function.name,
            function.evaluate,
            cast("Any", list(function.params)),
            cast("Any", function.returns),
            type=cast("Any", "arrow"),
            null_handling=cast("Any", "special"),
        )
    for macro in macros:
        for each in (duck, catching):
            each.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
    atexit.register(duck.close)  # else Python functions still held at exit are reported as leaks
    _installed.clear()  # a process has one connection
    _installed.add(mark)
