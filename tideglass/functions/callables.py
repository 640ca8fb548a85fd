"""Functions of users in Python, called from a query as UDF.name(...), a row at a time.

in the query     argument and result in Python
bigint           int
float            float; an int is one too, where float is declared
nvarchar(max)    str
datetime         datetime with a time zone, microseconds; a result without a zone is in UTC
bit              bool
record, array    dict, list, of the values that JSON has
NULL             None

Arguments cross as tagged text (`core.types`), many rows at a time, and so do results.
"""

from __future__ import annotations

import inspect
import json
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tideglass.core.errors import EvaluationError, TideglassError
from tideglass.core.tags import tag
from tideglass.core.time import ticks_of_datetime
from tideglass.core.types import TAG, TYPE_OF_TAG, Type
from tideglass.functions.conversions import variant_sql
from tideglass.functions.duckdb_functions import PythonFunction
from tideglass.functions.signature import Sql, literal_sql

if TYPE_CHECKING:
    import pyarrow as pa

#: What begins the name of such a call in a plan, before the function's own.
PREFIX = "python."

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS_PER_MICROSECOND = 10

_OF_ANNOTATION: Mapping[object, Type] = {
    int: Type.BIGINT,
    float: Type.FLOAT,
    str: Type.NVARCHAR,
    bool: Type.BIT,
    datetime: Type.DATETIME,
    dict: Type.RECORD,
    list: Type.ARRAY,
    tuple: Type.ARRAY,
    Mapping: Type.RECORD,
    Sequence: Type.ARRAY,
}
_RESULTS = "bigint, float, nvarchar(max), datetime, bit, record or array"


@tag("PythonCallable")
@dataclass(frozen=True, slots=True)
class PythonCallable:
    """A function of Python.

    source: its text, or its name where the text is not there; a changed one is another query
    returns: the type of its results; None: they have types of their own
    least: the least number of arguments
    most: the largest number; None: any number
    call: the function itself
    """

    source: str
    returns: Type | None
    least: int
    most: int | None
    call: Callable[..., Any] = field(repr=False, compare=False)


#: A user's function: the source of one in JavaScript, or one in Python.
UserCode: TypeAlias = "str | PythonCallable"

_known: dict[str, PythonCallable] = {}


def python_callable(name: str, call: Callable[..., Any], returns: str | None = None) -> PythonCallable:
    """A function of Python as UDF.name.

    returns: the type of its results as a query writes it; None: as its annotation says, if it has one.
    Raises TideglassError for a type that results cannot have.
    """
    type_ = _declared(name, returns) if returns is not None else _annotated(name, call)
    least, most = _arity(call)
    return PythonCallable(_source(call), type_, least, most, call)


def define_callables(functions: Mapping[str, UserCode]) -> None:
    """Makes the functions of Python among these known by name in this process."""
    _known.update({name: each for name, each in functions.items() if isinstance(each, PythonCallable)})


def call_sql(name: str, args: Sequence[Sql]) -> Sql:
    """SQL of a call of UDF.name; its value is tagged text."""
    row = f"CAST(to_json(list_value({', '.join(map(variant_sql, args))})) AS VARCHAR)" if args else "'[]'"
    return Sql(f"tg_callable({literal_sql(name)}, {row})", Type.VARIANT, fallible=True)


def _declared(name: str, returns: str) -> Type:
    wanted = returns.strip().casefold()
    wanted = {"nvarchar": "nvarchar(max)"}.get(wanted, wanted)
    if wanted not in {each.value for each in TAG}:
        raise TideglassError(
            f"The function UDF.{name} returns {returns!r}, which is no type; it is {_RESULTS}."
        )
    return Type(wanted)


def _annotated(name: str, call: Callable[..., Any]) -> Type | None:
    try:
        annotation = typing.get_type_hints(call).get("return", Any)
    except (TypeError, NameError):  # a callable object; names only a type checker reads
        return None
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        others = [each for each in typing.get_args(annotation) if each is not NoneType]
        annotation = others[0] if len(others) == 1 else Any
    if annotation in (Any, object, None, NoneType):
        return None
    type_ = _OF_ANNOTATION.get(typing.get_origin(annotation) or annotation)
    if type_ is None:
        raise TideglassError(
            f"The function UDF.{name} is annotated to return {annotation}, which is no type of a query; pass "
            f"({name}, 'float') with the type of its results: {_RESULTS}."
        )
    return type_


def _arity(call: Callable[..., Any]) -> tuple[int, int | None]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return 0, None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [each for each in parameters if each.kind in kinds]
    least = sum(each.default is inspect.Parameter.empty for each in positional)
    any_number = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    return least, None if any_number else len(positional)


def _source(call: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(call))
    except (OSError, TypeError):
        return f"{call.__module__}.{getattr(call, '__qualname__', type(call).__qualname__)}"


# ---------------------------------------------------------------- in a task


def _run(names: pa.Array, rows: pa.Array) -> pa.Array:
    import pyarrow as pa

    if len(rows) == 0:
        return pa.array([], pa.string())
    name = str(names[0])
    function = _known.get(name)
    if function is None:
        raise EvaluationError(f"The function UDF.{name} is not known in this process.")
    made = [_called(name, function, row) for row in cast("list[str]", rows.to_pylist())]
    return pa.array(made, pa.string())


def _called(name: str, function: PythonCallable, row: str) -> str | None:
    arguments = [None if each is None else _value(each) for each in json.loads(row)]
    try:
        result = function.call(*arguments)
    except Exception as error:
        text = " ".join(str(error).split())
        raise EvaluationError(f"The function UDF.{name} failed: {type(error).__name__}: {text}.") from error
    if result is None:
        return None
    type_ = _type_of(result)
    if type_ is None:
        raise EvaluationError(
            f"The function UDF.{name} returned a {type(result).__name__}, which is no value of a query."
        )
    wanted = function.returns
    if wanted is Type.FLOAT and type_ is Type.BIGINT:
        result, type_ = float(result), wanted
    if wanted is not None and type_ is not wanted:
        raise EvaluationError(
            f"The function UDF.{name} returned a value of type {type_.value}; it is declared to return "
            f"{wanted.value}."
        )
    return _tagged(name, result, type_)


def _value(tagged: str) -> Any:
    """The value of a tagged text."""
    text = tagged[1:]
    match TYPE_OF_TAG[tagged[0]]:
        case Type.BIGINT:
            return int(text)
        case Type.FLOAT:
            return float(text)
        case Type.DATETIME:
            return _EPOCH + timedelta(microseconds=int(text) // _TICKS_PER_MICROSECOND)
        case Type.BIT:
            return text == "1"
        case Type.RECORD | Type.ARRAY:
            return json.loads(text)
        case _:
            return text


def _type_of(value: Any) -> Type | None:
    match value:
        case bool():
            return Type.BIT
        case int():
            return Type.BIGINT
        case float():
            return Type.FLOAT
        case str():
            return Type.NVARCHAR
        case datetime():
            return Type.DATETIME
        case dict():
            return Type.RECORD
        case list() | tuple():
            return Type.ARRAY
        case _:
            return None


def _tagged(name: str, value: Any, type_: Type) -> str:
    match type_:
        case Type.BIGINT:
            if not -(2**63) <= value < 2**63:
                raise EvaluationError(
                    f"The function UDF.{name} returned an integer outside the range of bigint."
                )
            text = str(int(value))
        case Type.FLOAT:
            text = repr(float(value))
        case Type.BIT:
            text = "1" if value else "0"
        case Type.DATETIME:
            text = str(ticks_of_datetime(value if value.tzinfo else value.replace(tzinfo=UTC)))
        case Type.RECORD | Type.ARRAY:
            text = _json(name, value)
        case _:
            text = str(value)
    return TAG[type_] + text


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise EvaluationError(
            f"The function UDF.{name} returned what JSON cannot hold: {error}; make it of dict, list, str, "
            "int, float, bool and None."
        ) from error


PYTHON_FUNCTIONS = (PythonFunction("tg_callable", _run, ("VARCHAR", "VARCHAR"), "VARCHAR"),)
