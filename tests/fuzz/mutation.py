"""Small damages: to bytes, to the tokens of a query, to the values of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

#: Bytes that mean something to one of the formats.
SPECIAL_BYTES = b"\"'{}[](),:;|\\/#*-+.eE0123456789\r\n\t \x00\xff\xef\xbb\xbf\xed\xa0\x80\x1f\x8b\x80"
#: Texts that are at the edge of what some reader takes.
EDGE_TEXTS = [
    "", " ", "0", "-0", "-1", "1e400", "1e-400", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "1.7976931348623157e308", "NaN", "Infinity", "null", "true", "'", '"', "\\",
    "\\u0000", "\\ud800", "\ufeff", "\u202e", "é", "𝒳", "İ", "ß", "\x00", "\r", "\n", "\r\n", "\t", "%",
    "_", "[", "]", "{}", "[]", "--", "/*", "*/", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.9999999Z", "2026-02-30", "24:00", "P1D", "NULL", "$payload", "$offset", "..",
    "/etc/passwd", "C:\\x", "a" * 300,
]  # fmt: skip
EDGE_NUMBERS = [
    0,
    -1,
    1,
    2,
    7,
    255,
    2**31 - 1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**30,
    0.5,
    1e308,
]
#: Words, marks and whole pieces of the language.
QUERY_PIECES = Path(__file__).with_name("query_pieces.txt").read_text(encoding="utf-8").split()
_TOKEN = re.compile(r"\s+|\w+|\W", re.UNICODE)


def some(rng: Random, most: int = 4) -> range:
    """A few times, mostly once."""
    return range(min(most, 1 + int(rng.expovariate(1.2))))


def mutate_bytes(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Damage bytes in one to a few places."""
    for _ in some(rng):
        data = _mutate_once(rng, data, others)
    return data


def _mutate_once(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    to = min(len(data), at + 1 + int(rng.expovariate(1 / 8)))
    match rng.randrange(12):
        case 0:  # flip bits
            return data[:at] + bytes(b ^ (1 << rng.randrange(8)) for b in data[at : at + 1]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes([rng.choice(SPECIAL_BYTES)]) + data[at + 1 :]
        case 2:
            return data[:at] + bytes([rng.choice(SPECIAL_BYTES)]) + data[at:]
        case 3:
            return data[:at] + data[to:]
        case 4:
            return data[:at]
        case 5:
            return data[at:]
        case 6:
            return data[:to] + data[at:to] * rng.choice([1, 1, 2, 50]) + data[to:]
        case 7:
            return data[:at] + rng.choice(EDGE_TEXTS).encode("utf-8", "surrogatepass") + data[to:]
        case 8:
            return data[:at] + rng.randbytes(rng.choice([1, 2, 4, 16])) + data[to:]
        case 9 if others:
            other = rng.choice(others)
            begin = rng.randrange(len(other) + 1)
            return data[:at] + other[begin : begin + rng.choice([8, 64, 4096])] + data[to:]
        case 10:  # lines are what most of these files are made of
            return mutate_lines(rng, data)
        case _:
            number = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
            if not number:
                return data
            found = rng.choice(number)
            return data[: found.start()] + str(rng.choice(EDGE_NUMBERS)).encode() + data[found.end() :]


def mutate_lines(rng: Random, data: bytes) -> bytes:
    """Swap, double, drop, join, indent or blank lines."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(7):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            del lines[at]
        case 3:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case 4:
            lines.insert(at, rng.choice([b"", b" ", b"\r", b"\t\t", b"\x0c", b","]))
        case 5:
            lines = [line + b"\r" for line in lines]
        case _:
            middle = len(lines[at]) // 2
            lines[at : at + 1] = [lines[at][:middle], lines[at][middle:]]
    return b"\n".join(lines)


def mutate_query(rng: Random, text: str, others: Sequence[str]) -> str:
    """Damage the tokens of a query; of `others`, whole pieces are spliced in."""
    for _ in some(rng, 5) if rng.random() < 0.5 else [0]:
        tokens = _TOKEN.findall(text)
        at = rng.randrange(len(tokens) + 1)
        to = min(len(tokens), at + 1 + int(rng.expovariate(1 / 3)))
        match rng.randrange(13):
            case 0:
                del tokens[at:to]
            case 1 | 2:
                tokens[at:to] = [f" {rng.choice(QUERY_PIECES)} "]
            case 3:
                tokens[at:at] = [f" {rng.choice(QUERY_PIECES)} "]
            case 4:
                tokens[to:to] = tokens[at:to]
            case 5:
                other = _TOKEN.findall(rng.choice(others))
                begin = rng.randrange(len(other) + 1)
                tokens[at:to] = other[begin : begin + rng.randrange(1, 30)]
            case 6:
                places = [n for n, token in enumerate(tokens) if token.strip()]
                if len(places) > 1:
                    one, two = rng.choice(places), rng.choice(places)
                    tokens[one], tokens[two] = tokens[two], tokens[one]
            case 7:
                words = [n for n, token in enumerate(tokens) if token.isidentifier()]
                if words:
                    tokens[rng.choice(words)] = tokens[rng.choice(words)]
            case 8:
                numbers = [n for n, token in enumerate(tokens) if token.isdigit()]
                if numbers:
                    tokens[rng.choice(numbers)] = str(rng.choice(EDGE_NUMBERS))
            case 9:
                words = [n for n, token in enumerate(tokens) if token.isalpha()]
                if words:
                    place = rng.choice(words)
                    tokens[place] = rng.choice([str.upper, str.lower, str.swapcase])(tokens[place])
            case 10:
                tokens[at:at] = [rng.choice(EDGE_TEXTS)]
            case 11:
                tokens[at:to] = nested(rng, "".join(tokens[at:to]))
            case _:
                tokens = list(mutate_bytes(rng, "".join(tokens).encode()).decode("utf-8", "replace"))
        text = "".join(tokens)
    return text


def nested(rng: Random, inner: str) -> list[str]:
    """A piece of a query within itself, a few times, and now and then very often."""
    before, after = rng.choice(
        [("(", ")"), ("NOT ", ""), ("-", ""), ("CASE WHEN 1 = 1 THEN ", " END"), ("ABS(", ")"), ("a.", ""),
         ("1 + (", ")"), ("(SELECT ", ")"), ("CAST(", " AS float)"), ("x AND ", ""), ("[", "]")]
    )  # fmt: skip
    times = rng.choice([1, 1, 2, 3, 10, 40, 150, 600])
    return [before * times, inner, after * times]


def mutate_json(rng: Random, value: Any, keys: Sequence[str] = ()) -> Any:
    """Another value in place of one or a few within a JSON document; other, missing, doubled or odd keys."""
    for _ in some(rng):
        value = _mutate_value(rng, value, keys)
    return value


def _mutate_value(rng: Random, value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        match rng.randrange(6):
            case 0:
                return {name: each for name, each in value.items() if name != key}
            case 1:
                other = rng.choice([key.upper(), key.lower(), key + "s", *keys, *EDGE_TEXTS[:12]])
                return {other if name == key else name: each for name, each in value.items()}
            case 2:
                return {**value, rng.choice([*keys, "x"]): odd_value(rng)}
            case _:
                return {**value, key: _mutate_value(rng, value[key], keys)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, value[at]]
            case _:
                return [*value[:at], _mutate_value(rng, value[at], keys), *value[at + 1 :]]
    if isinstance(value, str) and rng.random() < 0.5:
        return mutate_bytes(rng, value.encode()).decode("utf-8", "replace")
    return odd_value(rng)


def odd_value(rng: Random) -> Any:
    """Any JSON value, mostly one that is not expected."""
    plain = [
        None,
        True,
        False,
        [],
        {},
        [[]],
        {"a": 1},
        [None],
        rng.choice(EDGE_TEXTS),
        rng.choice(EDGE_NUMBERS),
    ]
    if rng.random() < 0.03:
        depth = rng.choice([5, 100, 2000])
        return json.loads("[" * min(depth, 500) + "]" * min(depth, 500))
    return rng.choice(plain)
