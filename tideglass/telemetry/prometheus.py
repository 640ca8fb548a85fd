"""The metrics of a job in the text format of Prometheus, and an endpoint that serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from tideglass.job.report.status import Status
from tideglass.telemetry.catalogue import JOB_LABEL, MetricKind
from tideglass.telemetry.samples import MOST_SUBSTREAMS, samples

#: The media type of `exposition`.
CONTENT_TYPE = CONTENT_TYPE_LATEST


class StatusCollector(Collector):
    """Collects the metrics of jobs anew whenever it is asked, from their newest status.

    statuses: gives the newest status of every job; none of a job that has no status yet.
    substreams: how many of the slowest ones have metrics.
    """

    def __init__(self, statuses: Callable[[], Iterable[Status]], substreams: int = MOST_SUBSTREAMS) -> None:
        self._statuses = statuses
        self._substreams = substreams

    def collect(self) -> Iterator[MetricFamily]:
        return families(tuple(self._statuses()), self._substreams)

    def describe(self) -> Iterable[MetricFamily]:
        """Nothing: a registry then asks for no status when the collector is registered."""
        return ()


def families(statuses: Sequence[Status], substreams: int = MOST_SUBSTREAMS) -> Iterator[MetricFamily]:
    """The metrics of some jobs, each metric once with the samples of all of them."""
    found: dict[str, MetricFamily] = {}
    for status in statuses:
        for sample in samples(status, substreams):
            metric = sample.metric
            family = found.get(metric.name)
            if family is None:
                of = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
                family = of(metric.name, metric.text, labels=(JOB_LABEL, *metric.labels))
                found[metric.name] = family
            family.add_sample(metric.name, dict(sample.labels), sample.value)
    yield from found.values()


def exposition(*statuses: Status) -> bytes:
    """The metrics of jobs as a scrape gets them, of the media type `CONTENT_TYPE`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(lambda: statuses))
    return generate_latest(registry)
