"""The clauses of a SELECT, as far as a clause decides what an expression in it may contain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clause:
    """Where an expression stands, as far as that decides what it may contain.

    name: the clause as messages name it
    aggregate_error: code of the error for an aggregate that has no groups to work on here
    system_timestamp: System.Timestamp() may be called
    window_id: System.Window().Id may be read
    source_times: names of sources stand for their timestamps inside DATEDIFF (ON of a join)
    user_functions: UDF.name(...) may be called
    """

    name: str
    aggregate_error: str = "AGGREGATE_NOT_ALLOWED"
    system_timestamp: bool = True
    window_id: bool = False
    source_times: bool = False
    user_functions: bool = True


SELECT = Clause("SELECT", "AGGREGATE_WITHOUT_WINDOW")
GROUPED_SELECT = Clause("SELECT", "AGGREGATE_WITHOUT_WINDOW", window_id=True)
HAVING = Clause("HAVING", "AGGREGATE_WITHOUT_WINDOW")
WHERE = Clause("WHERE", "AGGREGATE_IN_WHERE")
GROUP_BY = Clause("GROUP BY", "AGGREGATE_IN_GROUP_BY")
TIMESTAMP_BY = Clause("TIMESTAMP BY", system_timestamp=False)
PARTITION_BY = Clause("PARTITION BY")
ON = Clause("ON", source_times=True)
APPLY = Clause("APPLY")
AGGREGATE = Clause("an aggregate", "NESTED_AGGREGATE")
#: The value and the default of an analytic function, and what stands in its OVER (`asa.md` 4.2).
ANALYTIC_VALUE = Clause("an analytic function", "AGGREGATE_IN_ANALYTIC", user_functions=False)
ANALYTIC_OVER = Clause("an analytic function", "AGGREGATE_IN_ANALYTIC")
DEFINE = Clause("DEFINE")
MEASURES = Clause("MEASURES")
