"""The detectors of anomalies: their constants, and the value they watch (`asa.md` 4.3)."""

from __future__ import annotations

from typing import Protocol

from tideglass.bind.durations import constant
from tideglass.core.errors import Diagnostics
from tideglass.core.suggest import did_you_mean
from tideglass.lang import nodes as tree
from tideglass.plan.calls import AnalyticCall, AnomalyModel
from tideglass.plan.expressions import Expr

CHANGE_POINT = "anomalydetection_changepoint"
ANOMALY_DETECTION = frozenset(("anomalydetection_spikeanddip", CHANGE_POINT))
SIDES = ("spikes", "dips", "spikesanddips")


class DetectorBinder(Protocol):
    """Binds expressions over the rows a detector watches."""

    def value(self, node: tree.Expr) -> Expr: ...


def anomaly_call(call: tree.CallExpr, rows: DetectorBinder, diagnostics: Diagnostics) -> AnalyticCall | None:
    """The detector; its length, keys and condition are left open. None once an error is reported."""
    function = call.name.text.casefold()
    change_point = function == CHANGE_POINT
    mode = "" if change_point else ", 'spikesanddips'"
    wanted = ("a value", "a confidence", "a history size") + (() if change_point else ("a mode",))
    if len(call.args) != len(wanted):
        diagnostics.error(
            "ANOMALY_ARGUMENTS",
            f"{call.name.text} takes {', '.join(wanted[:-1])} and {wanted[-1]}",
            call.span,
            f"write {call.name.text}(temperature, 95, 120{mode})",
        )
        return None
    arg = rows.value(call.args[0])
    confidence, history_size = constant(call.args[1]), constant(call.args[2])
    if confidence is None or not 1 <= confidence <= 100:
        diagnostics.error(
            "ANOMALY_CONFIDENCE",
            f"the confidence of {call.name.text} must be a constant from 1 to 100, in percent",
            call.args[1].span,
            "95 is usual; a lower one finds more anomalies",
        )
    if not isinstance(history_size, int) or history_size < 1:
        diagnostics.error(
            "ANOMALY_HISTORY",
            f"the history size of {call.name.text} must be a constant whole number, 1 or more",
            call.args[2].span,
            "it is how many events of a key come within LIMIT DURATION",
        )
    side = "spikesanddips" if change_point else _side(call, diagnostics)
    if diagnostics.errors or confidence is None or not isinstance(history_size, int):
        return None
    model = AnomalyModel(float(confidence), history_size, side, change_point)
    return AnalyticCall(function, 0, arg, model=model, span=call.span)


def _side(call: tree.CallExpr, diagnostics: Diagnostics) -> str:
    mode = call.args[3]
    text = mode.value if isinstance(mode, tree.LiteralExpr) else None
    if isinstance(text, str) and text.casefold() in SIDES:
        return text.casefold()
    known = "'spikes', 'dips' or 'spikesanddips'"
    near = did_you_mean(text, SIDES) if isinstance(text, str) else ""
    diagnostics.error(
        "ANOMALY_MODE", f"the mode of {call.name.text} must be {known}", mode.span, near or f"write {known}"
    )
    return SIDES[-1]
