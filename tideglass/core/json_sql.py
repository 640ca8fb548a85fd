"""SQL text that the columns and the functions both write: literals, and values as JSON."""

from __future__ import annotations

from tideglass.core.time import ORIGIN_TICKS, TICKS_PER_DAY, TICKS_PER_SECOND


def literal_sql(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def double_json_sql(value: str) -> str:
    """SQL of the JSON text of a double: the shortest that reads back the same; null if not finite."""
    return f"CASE WHEN isfinite({value}) THEN CAST({value} AS VARCHAR) ELSE 'null' END"


def variant_json_sql(value: str) -> str:
    """SQL of the JSON text of a value of a VARIANT column."""
    rest = f"substring({value}, 2)"
    ticks = f"(CAST({rest} AS BIGINT) - ({ORIGIN_TICKS}))"  # since 0001-01-01, so that // and % round down
    days = f"to_days(CAST({ticks} // {TICKS_PER_DAY} AS INTEGER))"
    seconds = f"to_seconds({ticks} % {TICKS_PER_DAY} // {TICKS_PER_SECOND})"
    shown = f"strftime(TIMESTAMP '0001-01-01' + {days} + {seconds}, '%Y-%m-%dT%H:%M:%S')"
    digits = f"lpad(CAST({ticks} % {TICKS_PER_SECOND} AS VARCHAR), 7, '0')"
    return (
        f"CASE left({value}, 1) WHEN 's' THEN CAST(to_json({rest}) AS VARCHAR) "
        f"WHEN 'f' THEN {double_json_sql(f'CAST({rest} AS DOUBLE)')} "
        f"WHEN 'b' THEN CASE {rest} WHEN '1' THEN 'true' ELSE 'false' END "
        f"WHEN 'd' THEN '\"' || {shown} || '.' || {digits} || 'Z\"' "
        f"ELSE {rest} END"
    )
