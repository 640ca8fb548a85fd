"""What the job must answer, computed without the engine: row by row in plain Python.

`place` is the rule of the time policies as it is written down, one message after the other; the other
functions count what it lets pass. All times are whole seconds since 1970, in UTC.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

HOUR = 3600
EARLY_SECONDS = 5 * 60  # fixed by the service
ALERT_WINDOW_SECONDS, ALERT_DELAY_MINUTES, ALERT_DEPARTURES = 2 * HOUR, 60, 10
AIRPORTS = ("EWR", "JFK", "LGA")  # as the input partitions are numbered

Message = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """The time policies of a project's `JobConfig.json`."""

    late_seconds: int
    out_of_order_seconds: int
    drop: bool = False

    @classmethod
    def of(cls, project: Path) -> Settings:
        config = json.loads((project / "JobConfig.json").read_text(encoding="utf-8"))
        return cls(
            config["EventsLateArrivalMaxDelayInSeconds"],
            config["EventsOutOfOrderMaxDelayInSeconds"],
            config["EventsOutOfOrderPolicy"] == "Drop",
        )


@dataclass(frozen=True, slots=True)
class Placed:
    """A message, what was decided, its system timestamp (None: dropped) and the watermark behind it."""

    message: Message
    decision: str
    stamp: int | None
    watermark: float


@cache
def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@cache
def iso(time: int) -> str:
    """A time as the outputs write it.

    >>> iso(seconds("2013-07-10T21:00:00Z"))
    '2013-07-10T21:00:00.0000000Z'
    """
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.0000000Z")


def read(folder: Path) -> dict[str, list[Message]]:
    """The messages of each airport, in order of arrival."""
    return {
        airport: [
            json.loads(line)
            for file in sorted((folder / airport).glob("*.json"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        for airport in AIRPORTS
    }


def place(
    messages: Iterable[Message], settings: Settings, substream: Callable[[Message], Hashable] | None = None
) -> list[Placed]:
    """The messages of one airport through the policies (asa.md 1.5).

    substream: the key with a watermark of its own; None: the airport has one.
    """
    result: list[Placed] = []
    newest: dict[Hashable, float] = {}  # per key: newest time seen, less the out-of-order tolerance
    floor = float("-inf")  # of all keys: newest arrival, less the late tolerance
    for message in messages:
        key = substream(message) if substream else None
        arrival = seconds(message["published"])
        before = max(newest.get(key, float("-inf")), floor)
        floor = max(floor, arrival - settings.late_seconds)
        stamp: int | None = None
        if message["scheduled"] is None:
            decision = "no time"
        elif (event := seconds(message["scheduled"])) - arrival > EARLY_SECONDS:
            decision = "early"
        else:
            late = arrival - event > settings.late_seconds
            stamp = arrival - settings.late_seconds if late else event
            out_of_order = stamp < before
            decision = {
                (False, False): "as is",
                (True, False): "late",
                (False, True): "out of order",
                (True, True): "late, out of order",
            }[late, out_of_order]
            if settings.drop and decision != "as is":
                stamp = None
            elif out_of_order:
                stamp = int(before)
        if stamp is not None:
            newest[key] = max(newest.get(key, float("-inf")), stamp - settings.out_of_order_seconds)
        result.append(Placed(message, decision, stamp, max(newest.get(key, float("-inf")), floor)))
    return result


def window_end(time: int, size: int) -> int:
    """End of the tumbling window that holds `time`; windows cover (start, end].

    >>> window_end(7200, 3600), window_end(7201, 3600)
    (7200, 10800)
    """
    return -(-time // size) * size


def hourly(placed: Iterable[Placed], key: Callable[[Message], Row]) -> list[Row]:
    """Departures and mean delay per key and hour."""
    delays: defaultdict[tuple[tuple[str, Any], ...], list[int]] = defaultdict(list)
    for each in placed:
        if each.stamp is not None:
            named = {**key(each.message), "hourEnd": iso(window_end(each.stamp, HOUR))}
            delays[tuple(named.items())].append(each.message["delayMinutes"])
    return [
        {**dict(named), "departures": len(found), "meanDelay": sum(found) / len(found)}
        for named, found in delays.items()
    ]


def by_airport(message: Message) -> Row:
    return {"origin": message["origin"]}


def carrier(message: Message) -> str:
    return message["carrier"]


def by_carrier(message: Message) -> Row:
    return {"carrier": message["carrier"], "PartitionId": AIRPORTS.index(message["origin"])}


def alerts(placed: Iterable[Placed]) -> list[Row]:
    """Carriers with many departures over an hour late within two hours.

    A sliding window is looked at whenever its content changes: as a departure enters, and two hours
    later as it leaves. It covers (at - 2 h, at].
    """
    of_carrier: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in placed:
        if each.stamp is not None and each.message["delayMinutes"] > ALERT_DELAY_MINUTES:
            of_carrier[each.message["carrier"]].append((each.stamp, each.message["delayMinutes"]))
    rows: list[Row] = []
    for name, found in of_carrier.items():
        found.sort()
        stamps = [stamp for stamp, _ in found]
        for at in sorted({*stamps, *(stamp + ALERT_WINDOW_SECONDS for stamp in stamps)}):
            inside = found[bisect_right(stamps, at - ALERT_WINDOW_SECONDS) : bisect_right(stamps, at)]
            if len(inside) >= ALERT_DEPARTURES:
                worst = max(delay for _, delay in inside)
                rows.append({"carrier": name, "delayed": len(inside), "worst": worst, "at": iso(at)})
    return rows


def moved(placed: Iterable[Placed], names: Sequence[str]) -> list[Row]:
    """Departures that were counted at another time than their own; `names`: the fields that are shown."""
    rows: list[Row] = []
    for each in placed:
        if each.stamp is not None and each.stamp != (own := seconds(each.message["scheduled"])):
            shown = {name: each.message[name] for name in names}
            # DATEDIFF counts the minute boundaries between the two.
            rows.append({**shown, "countedAt": iso(each.stamp), "movedMinutes": each.stamp // 60 - own // 60})
    return rows


def daily(messages: Iterable[Message]) -> list[Row]:
    """All messages, and those of cancelled flights, per airport and day by the clock."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    for message in messages:
        day = iso(window_end(seconds(message["published"]), 24 * HOUR))
        counts[message["origin"], day, message["cancelled"] is not None] += 1
    return [
        {
            "origin": airport,
            "messages": counts[airport, day, False] + counts[airport, day, True],
            "cancellations": counts[airport, day, True],
            "dayEnd": day,
        }
        for airport, day in sorted({(airport, day) for airport, day, _ in counts})
    ]


MOVED_FIELDS = ("origin", "carrier", "flight", "scheduled", "published")
MOVED_BY_CARRIER_FIELDS = ("origin", "carrier", "flight", "scheduled")


def outputs(placed: Sequence[Placed]) -> dict[str, list[Row]]:
    """The rows of every output of `flights.asaql`, given all messages of all airports."""
    return {
        "hourly": hourly(placed, by_airport),
        "alerts": alerts(placed),
        "moved": moved(placed, MOVED_FIELDS),
        "daily": daily(each.message for each in placed),
    }


def outputs_by_carrier(placed: Sequence[Placed]) -> dict[str, list[Row]]:
    """The rows of every output of `flights-by-carrier.asaql`; `placed` with `carrier` as substream."""
    return {
        "hourlyByCarrier": hourly(placed, by_carrier),
        "movedByCarrier": moved(placed, MOVED_BY_CARRIER_FIELDS),
    }


def expected(messages: Mapping[str, Sequence[Message]], settings: Settings) -> dict[str, list[Row]]:
    """What `flights.asaql` answers to the messages of each airport."""
    return outputs([each for airport in messages for each in place(messages[airport], settings)])


def expected_by_carrier(
    messages: Mapping[str, Sequence[Message]], settings: Settings
) -> dict[str, list[Row]]:
    """What `flights-by-carrier.asaql` answers to the messages of each airport."""
    return outputs_by_carrier(
        [each for airport in messages for each in place(messages[airport], settings, carrier)]
    )


def differences(want: Iterable[Row], found: Iterable[Row]) -> list[str]:
    """Rows that are expected and were not found, and the other way round; the order means nothing."""
    wanted, got = (Counter(json.dumps(row, sort_keys=True) for row in rows) for rows in (want, found))
    return [f"missing {row}" for row in (wanted - got).elements()] + [
        f"unexpected {row}" for row in (got - wanted).elements()
    ]
