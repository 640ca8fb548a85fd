"""What to write in place of functions and words that other dialects have and the language lacks."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

from collections.abc import Sequence

from tideglass.functions.registry import AGGREGATES, DATEPARTS, SCALARS

_THE_TIME = "the time of an event is System.Timestamp()"
_IN_JAVASCRIPT = "the language has no such function; write one in JavaScript and call it as UDF.name(...)"
_AGGREGATE_IN_JAVASCRIPT = (
    "the language has no such aggregate; write one in JavaScript and call it as uda.name(x)"
)
_OF_WINDOW = (
    "group by a window: TumblingWindow(minute, 1), HoppingWindow(minute, 10, 5) or SessionWindow(...)"
)
_FIRST_ROWS = "use TopOne() or CollectTop(n) OVER (ORDER BY ...)"
_LOOK_BACK = "use LAST(x) OVER (PARTITION BY k LIMIT DURATION(minute, 5)), or TopOne() OVER (ORDER BY ...)"
_COUNT_IF = "use SUM(CASE WHEN condition THEN 1 ELSE 0 END)"
_TEXT_OF_TIME = "use DATEPART(part, t) and DATENAME(part, t) with CONCAT, or a JavaScript function"
_SPLIT = "split text in a JavaScript function that returns an array, then CROSS APPLY GetArrayElements(...)"
_AS_ROWS = "write FROM ... CROSS APPLY GetArrayElements(a) AS e"

#: Functions of other dialects, in lower case, and what to do instead.
FUNCTIONS = {
    **dict.fromkeys(
        ("getdate", "getutcdate", "sysdatetime", "sysutcdatetime", "now", "current_timestamp", "current_date",
         "localtimestamp", "proctime", "ingestion_time", "unix_timestamp"), _THE_TIME
    ),
    **dict.fromkeys(("isnull", "nvl", "ifnull", "nvl2"), "use COALESCE(a, b)"),
    **dict.fromkeys(("iif", "if", "iff", "decode", "choose"), "use CASE WHEN condition THEN a ELSE b END"),
    **dict.fromkeys(("greatest", "least"), "use CASE WHEN a > b THEN a ELSE b END"),
    "convert": "use CAST(e AS type) or TRY_CAST(e AS type)",
    **dict.fromkeys(("try_convert", "safe_cast", "try_parse"), "use TRY_CAST(e AS type)"),
    **dict.fromkeys(
        ("parse", "to_timestamp", "to_date", "todatetime", "from_unixtime", "strptime", "str_to_date"),
        "use CAST(e AS datetime), or DATEADD(second, n, '1970-01-01T00:00:00Z') of seconds since 1970",
    ),
    **dict.fromkeys(("int", "integer", "bigint", "bit", "toint", "tolong", "long"), "use CAST(e AS bigint)"),
    **dict.fromkeys(("double", "float", "todouble", "real", "decimal"), "use CAST(e AS float)"),
    **dict.fromkeys(("string", "tostring", "str", "varchar", "nvarchar", "to_char"), "use CAST(e AS nvarchar(max))"),
    **dict.fromkeys(("datetime", "date", "trunc", "date_trunc"), "use CAST(e AS datetime) and DATEPART(part, t)"),
    **dict.fromkeys(("length", "char_length", "character_length", "strlen", "datalength"), "use LEN(s)"),
    **dict.fromkeys(("substr", "mid"), "use SUBSTRING(s, start, length)"),
    **dict.fromkeys(("instr", "locate", "position", "indexof", "strpos"), "use CHARINDEX(part, s)"),
    **dict.fromkeys(("ucase", "toupper"), "use UPPER(s)"),
    **dict.fromkeys(("lcase", "tolower"), "use LOWER(s)"),
    **dict.fromkeys(("strcat", "string_concat"), "use CONCAT(a, b)"),
    **dict.fromkeys(("regexp_like", "rlike", "regexp", "like"), "use REGEXMATCH(s, 'pattern') = 1 or s LIKE '%a%'"),
    **dict.fromkeys(("regexp_extract", "regexp_replace", "regexreplace", "extract"), _IN_JAVASCRIPT),
    **dict.fromkeys(("split", "string_split", "split_part"), _SPLIT),
    **dict.fromkeys(("ceil",), "use CEILING(x)"),
    **dict.fromkeys(("pow",), "use POWER(x, y)"),
    **dict.fromkeys(("mod",), "use the operator %"),
    **dict.fromkeys(("dayofweek", "weekday"), "use DATEPART(weekday, t)"),
    **{part: f"use DATEPART({part}, t)" for part in ("hour", "minute", "second", "quarter", "week", "dayofyear",
                                                     "millisecond")},
    **dict.fromkeys(("weekofyear",), "use DATEPART(week, t)"),
    **dict.fromkeys(("format", "date_format", "strftime", "format_datetime", "from_utc_timestamp"), _TEXT_OF_TIME),
    **dict.fromkeys(("date_add", "timestampadd", "add_months", "date_sub"), "use DATEADD(unit, n, t)"),
    **dict.fromkeys(("timestampdiff", "date_diff", "months_between", "datediff_big"), "use DATEDIFF(unit, from, to)"),
    "timestamp": "write System.Timestamp()",
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist"), _FIRST_ROWS),
    **dict.fromkeys(("arg_max", "argmax", "arg_min", "argmin", "max_by", "min_by", "take", "any"), _FIRST_ROWS),
    **dict.fromkeys(("first", "first_value"), "use TopOne() OVER (ORDER BY ... ASC)"),
    **dict.fromkeys(("last_value", "latest", "latest_by_offset"), _LOOK_BACK),
    "lead": "the future is not known yet; swap the roles with LAG",
    **dict.fromkeys(
        ("string_agg", "listagg", "group_concat", "array_agg", "collect_list", "collect_set", "make_list",
         "make_set"), "use Collect(), which makes an array of the events of a window; text of it is made in JavaScript"
    ),
    **dict.fromkeys(("countif", "count_if", "sumif", "avgif"), _COUNT_IF),
    **dict.fromkeys(("dcount", "approx_count_distinct", "count_distinct"), "use COUNT(DISTINCT x)"),
    **dict.fromkeys(("average", "mean"), "use AVG(x)"),
    **dict.fromkeys(("median", "percentile", "approx_percentile"), "use PERCENTILE_CONT(0.5) OVER (ORDER BY x)"),
    **dict.fromkeys(("stddev", "stddev_samp", "std"), "use STDEV(x)"),
    "stddev_pop": "use STDEVP(x)",
    **dict.fromkeys(("variance", "var_samp"), "use VAR(x)"),
    "var_pop": "use VARP(x)",
    **dict.fromkeys(("bool_and", "bool_or", "every", "mode", "corr", "covar_pop"), _AGGREGATE_IN_JAVASCRIPT),
    **dict.fromkeys(("tumble", "hop_window", "hopwindow", "hoppingwindows", "bin", "time_bucket", "date_bin"), _OF_WINDOW),
    **dict.fromkeys(
        ("tumble_start", "tumble_end", "hop_start", "hop_end", "window_start", "window_end"),
        "the end of a window is System.Timestamp(), its start DATEADD(minute, -1, System.Timestamp())",
    ),
    **dict.fromkeys(("explode", "unnest", "openjson", "flatten", "mv_expand"), _AS_ROWS),
    **dict.fromkeys(
        ("json_value", "json_query", "get_json_object", "json_extract", "parse_json", "from_json"),
        "a field of a record is r.name; JSON in a text is read by JSON_PARSE(s)",
    ),
    **dict.fromkeys(("size", "cardinality", "array_length", "array_size"), "use GetArrayLength(a)"),
    **dict.fromkeys(("element_at", "array_get"), "use GetArrayElement(a, 0)"),
    **dict.fromkeys(("rollup", "cube", "grouping"), "write a statement for each way to group"),
    **dict.fromkeys(("pivot", "unpivot"), "write a column for each value: SUM(CASE WHEN k = 'a' THEN x ELSE 0 END) AS a"),
    **dict.fromkeys(
        ("log", "ln", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atn2", "atan2", "pi", "rand",
         "hashbytes", "checksum", "md5", "sha1", "sha2", "newid", "uuid", "isnumeric", "isdate", "soundex"),
        _IN_JAVASCRIPT,
    ),
}  # fmt: skip

#: Date parts and units that other dialects spell otherwise.
DATE_WORDS = {
    "dayofweek": "weekday", "dow": "weekday", "isodow": "weekday", "doy": "dayofyear", "dayofmonth": "day",
    "mon": "month", "min": "minute", "sec": "second", "hr": "hour", "h": "hour", "hrs": "hour", "mins": "minute",
    "secs": "second", "msec": "millisecond", "milli": "millisecond", "weekofyear": "week", "isoweek": "week",
    "iso_week": "week", "us": "microsecond",
}  # fmt: skip

#: Words that stand for a value elsewhere and are fields of that name here.
VALUES = {
    "true": "a JSON true is the bit 1: write 1",
    "false": "a JSON false is the bit 0: write 0",
    **dict.fromkeys(
        ("current_timestamp", "current_date", "current_time", "localtimestamp", "sysdate"), _THE_TIME
    ),
}

_WINDOWS = ("TumblingWindow", "HoppingWindow", "SlidingWindow", "SessionWindow", "Windows")
#: How the functions are written, by their names in lower case, where it is not in capitals.
_OTHERS = ("LAG", "LAST", "ISFIRST", "GetMetadataPropertyValue", "GetArrayElements", "GetRecordProperties")


def function_names(with_windows: bool) -> Sequence[str]:
    """All functions one may have meant."""
    return (*SCALARS, *AGGREGATES, *_OTHERS, *(_WINDOWS if with_windows else ()))


def date_part_like(word: str) -> str:
    """A hint for a date part that is spelled otherwise elsewhere; '' if nothing is known of it."""
    part = DATE_WORDS.get(word.casefold())
    return f"write {part}" if part in DATEPARTS.values() else ""
