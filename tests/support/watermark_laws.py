"""What `asa.md` 11.3 and 11.8 ask of the watermarks and holds that tasks report, checked over a whole run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.engine.reports import Component, Hold, OperatorReport
from tideglass.ingress.reports import BatchReports
from tideglass.plan.topology import EmitOp, ReceiveOp, ScanOp, SendOp, Topology, sources_of

#: A key group of a stage, or an input partition on level 0.
Range = tuple[int, str]
Reported = Mapping[Range, Mapping[int, OperatorReport]]


def breaches_of(topology: Topology, batches: Sequence[BatchReports], *, ended: bool = True) -> list[str]:
    """Every law broken in a run, in words. ended: the last batch ends the inputs."""
    # With OVER rows may be let go by a watermark of their own, ahead of the one that is reported.
    substreams = any(reader.over for reader in topology.readers)
    breaches: list[str] = []
    before: Reported = {}
    for number, batch in enumerate(batches):
        now = reported(batch)
        for where, operators in now.items():
            for report in operators.values():
                breaches += (
                    f"batch {number}, {where}, operator {report.operator}: {text}"
                    for text in [
                        *_of_one(report),
                        *_of_level(topology, report, operators),
                        *_after(report, before.get(where, {}).get(report.operator), substreams),
                    ]
                )
        known = {**before, **now}  # who has nothing new in a batch may not report
        breaches += (f"batch {number}: {text}" for text in _of_exchanges(topology, known, now))
        before = known
    if not ended:
        return breaches
    for where, operators in before.items():
        breaches += (
            f"{where}, operator {report.operator} still holds {hold.kind} after the end"
            for report in operators.values()
            for hold in report.holds
        )
    return breaches


def reported(batch: BatchReports) -> Reported:
    """The reports of a batch by range and operator."""
    found: dict[Range, Mapping[int, OperatorReport]] = {}
    for partition in batch.partitions:
        found[0, partition.sender] = {each.operator: each for each in partition.operators}
    for stage in batch.stages:
        found[stage.level, str(stage.key_group)] = {each.operator: each for each in stage.operators}
    return found


def _of_one(report: OperatorReport) -> Iterable[str]:
    if report.output_watermark_ticks > report.input_watermark_ticks:
        yield "its rows are ahead of its input"
    for hold in report.holds:
        if hold.holds_watermark and report.output_watermark_ticks > hold.oldest_ticks:
            yield f"its rows are ahead of {hold.kind}"
        if hold.component is Component.STATE and hold.rows == 0:
            yield f"{hold.kind} without rows"
        if hold.due_ticks is not None and hold.due_ticks < report.input_watermark_ticks:
            yield f"{hold.kind} are overdue"


def _of_level(
    topology: Topology, report: OperatorReport, operators: Mapping[int, OperatorReport]
) -> Iterable[str]:
    """Within a stage an operator is where its sources are, and takes what they make."""
    op = topology.op(report.operator)
    sources = [operators[source] for source in sources_of(op) if source in operators]
    if sources:
        if report.input_watermark_ticks != min(each.output_watermark_ticks for each in sources):
            yield "its input is not where its sources are"
        if report.rows_in != sum(each.rows_out for each in sources):
            yield "it took not what its sources made"
    if isinstance(op, SendOp | ReceiveOp) and report.rows_in != report.rows_out:
        yield "it lost rows"
    if isinstance(op, ScanOp) and report.rows_in < report.rows_out:
        yield "it made events"


def _after(report: OperatorReport, before: OperatorReport | None, substreams: bool) -> Iterable[str]:
    if before is None:
        return
    if report.input_watermark_ticks < before.input_watermark_ticks:
        yield "its input went back"
    if report.output_watermark_ticks < before.output_watermark_ticks:
        yield "its rows went back"
    kept = [hold for hold in before.holds if hold.component in (Component.STATE, Component.OUTPUT_BUFFER)]
    dues_ticks = [_lets_go_after(hold) for hold in kept]
    quiet = not report.rows_in and report.input_watermark_ticks <= min(dues_ticks, default=AFTER_ALL_TICKS)
    if quiet and report.rows_out and not substreams:
        yield "rows were made before they were due"


def _lets_go_after(hold: Hold) -> int:
    """Up to which watermark rows stay if none arrives; an output buffer lets go of what it has reached."""
    if hold.due_ticks is None:
        return BEFORE_ALL_TICKS
    return hold.due_ticks - (hold.component is Component.OUTPUT_BUFFER)


def _of_exchanges(topology: Topology, known: Reported, now: Reported) -> Iterable[str]:
    """A receiver is where its slowest sender is, and all of them take what is sent.

    known: the last report of every range. now: those of the batch.
    """
    sent: dict[int, list[OperatorReport]] = {}
    received: dict[int, list[OperatorReport]] = {}
    for where, operators in known.items():
        for report in operators.values():
            op = topology.op(report.operator)
            counted = report if where in now else replace(report, rows_in=0, rows_out=0)
            if isinstance(op, SendOp):
                sent.setdefault(op.id, []).append(counted)
            elif isinstance(op, ReceiveOp):
                received.setdefault(op.send, []).append(counted)
    for send, receivers in received.items():
        senders = sent.get(send, [])
        least_ticks = min((each.output_watermark_ticks for each in senders), default=BEFORE_ALL_TICKS)
        if any(each.input_watermark_ticks != least_ticks for each in receivers):
            yield f"exchange {send}: a receiver is not where its slowest sender is"
        if sum(each.rows_in for each in receivers) != sum(each.rows_out for each in senders):
            yield f"exchange {send}: not all that was sent was received"


def emitted(topology: Topology, batches: Iterable[BatchReports]) -> dict[str, int]:
    """The rows of every output, as the operators that emit them report."""
    rows = dict.fromkeys(topology.outputs, 0)
    for batch in batches:
        for operators in reported(batch).values():
            for report in operators.values():
                op = topology.op(report.operator)
                if isinstance(op, EmitOp):
                    rows[op.output] += report.rows_out
    return rows
