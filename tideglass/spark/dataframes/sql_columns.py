"""The types of Spark as the language sees them, and the columns of outputs that keep those it has not.

Spark                                    inside a query                       passed through unchanged
tinyint … bigint, day-time interval      bigint                               bigint
float, double                            float                                double
string, char, varchar                    nvarchar(max)                        string
timestamp, timestamp_ntz, date           datetime; ISO text within a struct   timestamp
boolean                                  bit                                  boolean
decimal                                  its digits as text                   the same decimal
binary                                   base64 text                          binary
struct                                   record                               the same struct
map with texts for keys                  record                               the same map
map with other keys                      array of {"key", "value"}            the same map
array                                    array                                the same array
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import types as sql_types

from tideglass.core.types import Type

_TYPES: Mapping[type[sql_types.DataType], Type] = {
    sql_types.ByteType: Type.BIGINT,
    sql_types.ShortType: Type.BIGINT,
    sql_types.IntegerType: Type.BIGINT,
    sql_types.LongType: Type.BIGINT,
    sql_types.DayTimeIntervalType: Type.BIGINT,
    sql_types.FloatType: Type.FLOAT,
    sql_types.DoubleType: Type.FLOAT,
    sql_types.DecimalType: Type.NVARCHAR,
    sql_types.StringType: Type.NVARCHAR,
    sql_types.CharType: Type.NVARCHAR,
    sql_types.VarcharType: Type.NVARCHAR,
    sql_types.BinaryType: Type.NVARCHAR,
    sql_types.TimestampType: Type.DATETIME,
    sql_types.TimestampNTZType: Type.DATETIME,
    sql_types.DateType: Type.DATETIME,
    sql_types.BooleanType: Type.BIT,
    sql_types.StructType: Type.RECORD,
    sql_types.ArrayType: Type.ARRAY,
    sql_types.MapType: Type.ARRAY,
    sql_types.NullType: Type.NULL,
}
#: Of Spark 4.1 and newer.
_TIME = getattr(sql_types, "TimeType", None)

_COLUMNS: Mapping[Type, sql_types.DataType] = {
    Type.BIGINT: sql_types.LongType(),
    Type.FLOAT: sql_types.DoubleType(),
    Type.BIT: sql_types.BooleanType(),
    Type.DATETIME: sql_types.TimestampType(),
}

_TIMES = (sql_types.TimestampType, sql_types.TimestampNTZType, sql_types.DateType)
_NESTED = (sql_types.StructType, sql_types.ArrayType, sql_types.MapType)
#: Types the language has not: their values can be passed on, and nothing else.
_OPAQUE = (sql_types.DecimalType, sql_types.BinaryType)

_ARROW: Mapping[type[sql_types.DataType], pa.DataType] = {
    sql_types.ByteType: pa.int8(),
    sql_types.ShortType: pa.int16(),
    sql_types.IntegerType: pa.int32(),
    sql_types.LongType: pa.int64(),
    sql_types.FloatType: pa.float32(),
    sql_types.DoubleType: pa.float64(),
    sql_types.StringType: pa.string(),
    sql_types.CharType: pa.string(),
    sql_types.VarcharType: pa.string(),
    sql_types.BinaryType: pa.binary(),
    sql_types.TimestampType: pa.timestamp("us", "UTC"),
    sql_types.TimestampNTZType: pa.timestamp("us"),
    sql_types.DateType: pa.date32(),
    sql_types.BooleanType: pa.bool_(),
}


def column_type(type_: Type) -> sql_types.DataType:
    """The type of a column for values of a type of the language; text for those Spark has no type for."""
    return _COLUMNS.get(type_, sql_types.StringType())


def value_type(of: sql_types.DataType, level: str = "1.2", *, nested: bool = False) -> Type | None:
    """The type of a column's values inside a query; None for a type no query can read.

    nested: within a struct or map, which a query reads from JSON text: what JSON lacks is text there.
    """
    of = _plain(of)
    if isinstance(of, sql_types.MapType) and isinstance(of.keyType, sql_types.StringType):
        return Type.RECORD
    if _TIME is not None and isinstance(of, _TIME):
        return Type.NVARCHAR
    type_ = _TYPES.get(type(of))
    if nested and type_ is Type.DATETIME:
        return Type.NVARCHAR
    return Type.BIGINT if type_ is Type.BIT and level < "1.2" else type_


def field_types(
    schema: sql_types.StructType, level: str, path: tuple[str, ...] = ()
) -> dict[tuple[str, ...], Type]:
    """Types by path, of the columns and of the fields of structs."""
    result: dict[tuple[str, ...], Type] = {}
    for each in schema.fields:
        here = (*path, each.name)
        result[here] = value_type(each.dataType, level, nested=bool(path)) or Type.VARIANT
        if isinstance(each.dataType, sql_types.StructType):
            result |= field_types(each.dataType, level, here)
    return result


def type_at(schema: sql_types.StructType, path: tuple[str, ...]) -> sql_types.DataType | None:
    """The type of a field by its path into structs and maps with texts for keys; None if there is none."""
    found: sql_types.DataType = schema
    for name in path:
        if isinstance(found, sql_types.StructType):
            types = {each.name: each.dataType for each in found.fields}
            alike = [own for own in types if own.lower() == name.lower()]
            own = name if name in types else alike[0] if len(alike) == 1 else None
            if own is None:
                return None
            found = _plain(types[own])
        elif isinstance(found, sql_types.MapType) and isinstance(found.keyType, sql_types.StringType):
            found = _plain(found.valueType)
        else:
            return None
    return found


def is_opaque(type_: sql_types.DataType | None) -> bool:
    """Whether the language has no type for the values."""
    return isinstance(type_, _OPAQUE)


def kept_type(types: Iterable[sql_types.DataType | None], *, nested: bool) -> sql_types.DataType | None:
    """The type an output's column keeps that holds values of these, passed through; None: it keeps none.

    nested: one of the values at least was read from within a struct or a map.
    """
    found = list(types)
    first = found[0] if found else None
    if first is None or any(each is None or each.simpleString() != first.simpleString() for each in found):
        return None
    if nested and isinstance(first, _TIMES):
        return sql_types.TimestampType()
    if not isinstance(first, (*_NESTED, *_OPAQUE)) or arrow_of(first) is None:
        return None
    return _nullable(first)


def arrow_of(type_: sql_types.DataType) -> pa.DataType | None:
    """The type of Arrow for a type of Spark; None for one whose values a query cannot make again."""
    match type_:
        case sql_types.DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case sql_types.StructType(fields=fields):
            inner = [(each.name, arrow_of(each.dataType)) for each in fields]
            known = [pa.field(name, arrow) for name, arrow in inner if arrow is not None]
            return pa.struct(known) if len(known) == len(inner) else None
        case sql_types.ArrayType(elementType=element):
            of = arrow_of(element)
            return None if of is None else pa.list_(of)
        case sql_types.MapType(keyType=key, valueType=value):
            keys, values = arrow_of(key), arrow_of(value)
            return None if keys is None or values is None else pa.map_(keys, values)
        case _:
            return _ARROW.get(type(type_))


def differing_inside(type_: sql_types.DataType) -> bool:
    """Whether a query holds values of the type otherwise than versions did that knew no decimals and maps."""
    match type_:
        case sql_types.DecimalType():
            return True
        case sql_types.MapType():
            return isinstance(type_.keyType, sql_types.StringType) or differing_inside(type_.valueType)
        case sql_types.ArrayType(elementType=element):
            return differing_inside(element)
        case sql_types.StructType(fields=fields):
            return any(differing_inside(each.dataType) for each in fields)
        case _:
            return False


def _plain(type_: sql_types.DataType) -> sql_types.DataType:
    """The type a user's type is held in."""
    return type_.sqlType() if isinstance(type_, sql_types.UserDefinedType) else type_


def _nullable(type_: sql_types.DataType) -> sql_types.DataType:
    """The type with every value in it allowed to be NULL, as a number that JSON cannot hold becomes."""
    match type_:
        case sql_types.StructType(fields=fields):
            return sql_types.StructType(
                [sql_types.StructField(each.name, _nullable(each.dataType)) for each in fields]
            )
        case sql_types.ArrayType(elementType=element):
            return sql_types.ArrayType(_nullable(element))
        case sql_types.MapType(keyType=key, valueType=value):
            return sql_types.MapType(_nullable(key), _nullable(value))
        case _:
            return type_
