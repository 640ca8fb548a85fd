"""The slowest and the fastest substreams of an operator, from what its key groups report.

Every key group knows all substreams, and holds rows of some of them back: a substream is as slow as in the
key group where it is slowest. So the slowest ones are among those that some key group lists as slow. The
fastest are taken from those that every key group lists, since the watermark of another is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tideglass.engine.substream_watermarks import MOST_FASTEST, MOST_SLOWEST, SubstreamsAhead
from tideglass.ingress.reader_report import shown_name
from tideglass.job.report.status import StepSubstreamStatus


def slowest_and_fastest(operator: int, ahead: Mapping[int, SubstreamsAhead]) -> Iterator[StepSubstreamStatus]:
    """The slowest 20, slowest first, then the fastest 5, none of them twice.

    ahead: what the key groups of the operator report, by their numbers.
    """
    places: dict[str, tuple[int, int]] = {}
    listed_by: Counter[str] = Counter()
    slowest: set[str] = set()
    for key_group, reported in ahead.items():
        slowest.update(each.name for each in reported.slowest)
        for each in dict.fromkeys([*reported.slowest, *reported.fastest]):
            place = (each.watermark_ticks, key_group)
            places[each.name] = min(place, places.get(each.name, place))
            listed_by[each.name] += 1
    everywhere = [name for name, count in listed_by.items() if count == len(ahead)]
    first = sorted(slowest, key=lambda name: (places[name], name))[:MOST_SLOWEST]
    last = sorted(everywhere, key=lambda name: (-places[name][0], name))[:MOST_FASTEST]
    for name in dict.fromkeys([*first, *last]):
        ticks, key_group = places[name]
        yield StepSubstreamStatus(operator, key_group, name.partition("/")[0], shown_name(name), ticks)
