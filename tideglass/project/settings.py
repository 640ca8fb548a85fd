"""Settings of a job: the ordering policies of time and what goes with them (`asa.md` 1.4, 5.5, 10.1).

They come from `JobConfig.json` of a project (delays in whole seconds, names as the service spells
them) or from the options of the test kit (`{"late_arrival": "5s", "policy": "drop"}`); both are
checked against the service's ranges, all problems at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from tideglass.core.errors import ProjectError
from tideglass.core.limits import Limits
from tideglass.core.time import (
    LAST_TICKS,
    ORIGIN_TICKS,
    TICKS_PER_DAY,
    TICKS_PER_HOUR,
    TICKS_PER_MILLISECOND,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
)
from tideglass.project.keys import job_config

if TYPE_CHECKING:
    from tideglass.plan.policy_settings import Policies

Policy: TypeAlias = Literal["adjust", "drop"]
CompatibilityLevel: TypeAlias = Literal["1.0", "1.1", "1.2"]

#: 20 d 23:59:59, the service's longest tolerance.
LARGEST_LATE_SECONDS = 1_814_399
#: 9 min 59 s; the limit of the service's clients, the pages state none (`asa.md` 1.4).
LARGEST_OUT_OF_ORDER_SECONDS = 599
#: The service drops rows further than this ahead of their arrival; fixed there.
EARLY_TICKS = 5 * TICKS_PER_MINUTE

#: The least and the largest values of the limits in settings (`core.limits`).
JAVASCRIPT_SECONDS = (1, 3600)
JAVASCRIPT_MEGABYTES = (32, 65_536)

#: Settings that `JobSettings.of_rows` does not write as they are.
_BESIDE = ("limits", "output_timestamps", "watermarks", "early_panes")

_DURATION_UNITS = {
    "d": TICKS_PER_DAY,
    "h": TICKS_PER_HOUR,
    "m": TICKS_PER_MINUTE,
    "s": TICKS_PER_SECOND,
    "ms": TICKS_PER_MILLISECOND,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job treats time and errors.

    late_arrival_ticks: the late tolerance; None: no limit, hence no progress of idle partitions (A-04).
    out_of_order_ticks: the out-of-order tolerance.
    policy: what happens to events beyond the tolerances: their time is adjusted, or they are dropped.
    early_arrival_ticks: how much earlier than its time an event may arrive; None switches the rule off (the
        service cannot; scenario 2 of 1.9 does).
    compatibility_level: of the service.
    output_error_policy: of rows a sink cannot take (`asa.md` 6.6).
    on_error: of rows that make the query fail: the service always stops (A-33), "drop" counts them and leaves
        them out.
    data_locale: how the service reads numbers and times of text; not used here.
    limits: of JavaScript and regular expressions.
    output_timestamps: by step or output, the time its results have (`plan.chosen_timestamps`); our own, the
        service has the end of the window.
    watermarks: by input, the watermark policy of its source (`plan.source_watermarks`); our own, the service
        has none to choose.
    early_panes: by step or output, the percentages of its early panes (`plan.early_panes`); our own.
    """

    late_arrival_ticks: int | None = None
    out_of_order_ticks: int = 0
    policy: Policy = "adjust"
    early_arrival_ticks: int | None = EARLY_TICKS
    compatibility_level: CompatibilityLevel = "1.2"
    output_error_policy: Literal["stop", "drop"] = "stop"
    on_error: Literal["stop", "drop"] = "stop"
    data_locale: str = "en-US"
    limits: Limits = Limits()
    output_timestamps: tuple[tuple[str, str], ...] = ()
    watermarks: tuple[tuple[str, str], ...] = ()
    early_panes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def policies(self) -> Policies:
        """The time policies of every input that is read with TIMESTAMP BY."""
        from tideglass.plan.policy_settings import Policies

        return Policies(
            early_ticks=self.early_arrival_ticks,
            late_ticks=self.late_arrival_ticks,
            out_of_order_ticks=self.out_of_order_ticks,
            drop=self.policy == "drop",
        )

    def without_policies(self) -> JobSettings:
        """The same settings for local files without arrival times: no event is moved or dropped.

        The service's tools apply no ordering policies to local files (`asa.md` 10.1). A tolerance as
        wide as all of time sorts any file and never meets an event before the watermark. Raises ProjectError
        for a watermark policy that needs arrival times.
        """
        if self.watermarks:
            from tideglass.plan.source_watermarks import without_arrival_times

            without_arrival_times(dict(self.watermarks))
        return replace(
            self,
            late_arrival_ticks=None,
            early_arrival_ticks=None,
            out_of_order_ticks=LAST_TICKS - ORIGIN_TICKS,
        )

    def of_rows(self) -> dict[str, Any]:
        """The settings that decide which rows there are; limits do not."""
        found = {name: value for name, value in asdict(self).items() if name not in _BESIDE}
        # absent where nothing is chosen, as in what earlier versions wrote
        chosen = {
            "output_timestamps": dict(self.output_timestamps),
            "watermarks": dict(self.watermarks),
            "early_panes": {step: list(percents) for step, percents in self.early_panes},
        }
        return found | {name: by_name for name, by_name in chosen.items() if by_name}

    def to_json(self) -> str:
        """All settings as one text, the same for equal ones; checkpoints are distinguished by it."""
        return json.dumps(self.of_rows(), separators=(",", ":"))


def parse_duration_ticks(text: str) -> int | None:
    """Ticks of a duration such as `5s`, `1h30m`, `250ms` or `0s`; None for `none`, which is no limit.

    Raises ValueError for anything else.

    >>> parse_duration_ticks("1h30m") == 90 * TICKS_PER_MINUTE
    True
    """
    cleaned = text.strip().lower()
    if cleaned == "none":
        return None
    pieces = _DURATION.findall(cleaned)
    if not pieces or "".join(number + unit for number, unit in pieces) != cleaned:
        raise ValueError(f"{text!r} is no duration; write for example '5s', '2m', '1h30m', '250ms' or 'none'")
    return sum(round(float(number) * _DURATION_UNITS[unit]) for number, unit in pieces)


def format_duration(ticks: int | None) -> str:
    """The shortest text `parse_duration_ticks` reads back as `ticks`.

    >>> format_duration(90 * TICKS_PER_MINUTE)
    '1h30m'
    """
    if ticks is None:
        return "none"
    pieces: list[str] = []
    rest = ticks
    for unit, unit_ticks in _DURATION_UNITS.items():
        count, rest = divmod(rest, unit_ticks)
        if count:
            pieces.append(f"{count}{unit}")
    if rest:
        pieces.append(f"{rest / TICKS_PER_MILLISECOND:g}ms")
    return "".join(pieces) or "0s"


# ---------------------------------------------------------------- options of the test kit

_LIMIT_OPTIONS = {
    "javascript_seconds": JAVASCRIPT_SECONDS,
    "javascript_megabytes": JAVASCRIPT_MEGABYTES,
}
_OPTIONS = (
    "late_arrival",
    "out_of_order",
    "policy",
    "early_arrival",
    "compatibility_level",
    "on_error",
    "output_timestamps",
    "watermarks",
    "early_panes",
    *_LIMIT_OPTIONS,
)


def from_options(options: Mapping[str, Any] | None) -> JobSettings:
    """Settings written as in `tideglass.testing.run(settings=...)`; what is left out has its default.

    Defaults: late unlimited, out of order 0, adjust, early 300 s, level 1.2.
    Raises ProjectError that lists everything wrong.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    limits: dict[str, int] = {}
    for name, value in (options or {}).items():
        if name not in _OPTIONS:
            near = get_close_matches(name, _OPTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_OPTIONS)}"
            problems.append(f"settings: {name!r} is no setting; {hint}")
        elif name in ("late_arrival", "out_of_order", "early_arrival"):
            try:
                values[f"{name}_ticks"] = parse_duration_ticks(str(value))
            except ValueError as error:
                problems.append(f"settings: {name}: {error}")
        elif name == "output_timestamps":
            values[name] = _by_name(name, value, "settings", problems, _STAMPS)
        elif name == "watermarks":
            values[name] = _by_name(name, _for_all(value), "settings", problems, _WATERMARKS)
        elif name == "early_panes":
            values[name] = _percents_by_step(name, value, "settings", problems)
        elif name in _LIMIT_OPTIONS:
            least, most = _LIMIT_OPTIONS[name]
            if str(value).isdecimal() and least <= int(value) <= most:
                limits[name] = int(value)
            else:
                problems.append(
                    f"settings: {name} is {value!r}, it must be a whole number, {least} to {most}"
                )
        else:
            values[name] = value.lower() if name in ("policy", "on_error") else str(value)
    problems += [f"settings: {problem}" for problem in _range_problems(values)]
    if problems:
        raise ProjectError("\n".join(problems))
    return JobSettings(**values, limits=Limits(**limits))


_STAMPS = '{"perUser": "first element"}'
_WATERMARKS = '{"clicks": "at percentile 95"}'


def _for_all(watermarks: object) -> object:
    """A single text is the policy of all inputs."""
    return {"*": watermarks} if isinstance(watermarks, str) else watermarks


def _by_name(
    name: str, value: object, place: str, problems: list[str], example: str
) -> tuple[tuple[str, str], ...]:
    """A setting that has a text for each of some steps, outputs or inputs. example: a right value."""
    pairs = cast("dict[object, object]", value) if isinstance(value, dict) else {None: None}
    if all(isinstance(each, str) and isinstance(chosen, str) for each, chosen in pairs.items()):
        return tuple((str(each), str(chosen)) for each, chosen in pairs.items())
    problems.append(f"{place}: {name} is {value!r}, it must be an object with texts, such as {example}")
    return ()


def _percents_by_step(
    name: str, value: object, place: str, problems: list[str]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """A setting that has percentages for each of some steps and outputs."""
    found: list[tuple[str, tuple[int, ...]]] = []
    pairs = cast("dict[object, object]", value) if isinstance(value, dict) else {None: None}
    for step, listed in pairs.items():
        percents = cast("list[object]", listed) if isinstance(listed, list) else [None]
        whole = [each for each in percents if type(each) is int and 1 <= each <= 99]
        if not isinstance(step, str) or len(whole) != len(percents) or not whole:
            problems.append(
                f"{place}: {name} is {value!r}, it must be an object with percentages from 1 to 99 for each "
                'step, such as {"perMinute": [33, 66]}'
            )
            return ()
        found.append((step, tuple(whole)))
    return tuple(found)


def _range_problems(values: Mapping[str, Any]) -> list[str]:
    """What in these values is outside of the service's ranges (`asa.md` 1.4)."""
    problems: list[str] = []
    late_ticks = values.get("late_arrival_ticks")
    if late_ticks is not None and late_ticks > LARGEST_LATE_SECONDS * TICKS_PER_SECOND:
        problems.append(
            f"late_arrival is {format_duration(late_ticks)}, the largest is "
            f"{format_duration(LARGEST_LATE_SECONDS * TICKS_PER_SECOND)}; use 'none' for no limit"
        )
    if "out_of_order_ticks" in values:
        ooo_ticks = values["out_of_order_ticks"]
        if ooo_ticks is None or ooo_ticks > LARGEST_OUT_OF_ORDER_SECONDS * TICKS_PER_SECOND:
            problems.append(
                f"out_of_order is {format_duration(ooo_ticks)}, it must be 0s to "
                f"{format_duration(LARGEST_OUT_OF_ORDER_SECONDS * TICKS_PER_SECOND)}"
            )
    if values.get("policy", "adjust") not in ("adjust", "drop"):
        problems.append(f"policy is {values['policy']!r}, it must be 'adjust' or 'drop'")
    if values.get("on_error", "stop") not in ("stop", "drop"):
        problems.append(f"on_error is {values['on_error']!r}, it must be 'stop' or 'drop'")
    if values.get("compatibility_level", "1.2") not in ("1.0", "1.1", "1.2"):
        level = values["compatibility_level"]
        problems.append(f"compatibility_level is {level!r}, it must be '1.0', '1.1' or '1.2'")
    return problems


# ---------------------------------------------------------------- JobConfig.json


def from_job_config(config: Mapping[str, Any], place: str = "JobConfig.json") -> JobSettings:
    """Settings of a project's `JobConfig.json`; keys that concern only the cloud are ignored.

    Keys are known in any case, and nested under `properties` as the service's interface has them. An absent
    late tolerance is no limit, as in that interface (`asa.md` 1.4).
    Raises ProjectError that lists everything wrong, each with `place` and the key.
    """
    config = job_config(config)
    problems: list[str] = []
    values: dict[str, Any] = {}

    def whole(key: str, smallest: int, largest: int, unit: str) -> int | None:
        value = config.get(key)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"\s*-?\d+\s*", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
            problems.append(
                f"{place}: {key} is {value!r}, "
                f"it must be a whole number of {unit} from {smallest} to {largest}"
            )
            return None
        return value

    def choice(key: str, options: Mapping[str, str]) -> str | None:
        value = config.get(key)
        if value is None:
            return None
        found = options.get(str(value).strip().lower())
        if found is None:
            problems.append(f"{place}: {key} is {value!r}, it must be one of {', '.join(options)}")
        return found

    late_seconds = whole("EventsLateArrivalMaxDelayInSeconds", -1, LARGEST_LATE_SECONDS, "seconds")
    if late_seconds is not None and late_seconds >= 0:
        values["late_arrival_ticks"] = late_seconds * TICKS_PER_SECOND
    ooo_seconds = whole("EventsOutOfOrderMaxDelayInSeconds", 0, LARGEST_OUT_OF_ORDER_SECONDS, "seconds")
    if ooo_seconds is not None:
        values["out_of_order_ticks"] = ooo_seconds * TICKS_PER_SECOND
    policy = choice("EventsOutOfOrderPolicy", {"adjust": "adjust", "drop": "drop"})
    if policy is not None:
        values["policy"] = policy
    level = choice("CompatibilityLevel", {"1.0": "1.0", "1.1": "1.1", "1.2": "1.2"})
    if level is not None:
        values["compatibility_level"] = level
    # The portal's Retry and the interface's Stop are one thing (`asa.md` 6.6).
    on_error = choice("OutputErrorPolicy", {"stop": "stop", "retry": "stop", "drop": "drop"})
    if on_error is not None:
        values["output_error_policy"] = on_error
    # Our own key: the service's OutputErrorPolicy is about sinks only, its rows always stop the job.
    on_row_error = choice("RowErrorPolicy", {"stop": "stop", "drop": "drop"})
    if on_row_error is not None:
        values["on_error"] = on_row_error
    # Our own keys, too: the service has limits and no setting for them.
    stamps = config.get("OutputTimestamps")
    if stamps is not None:
        values["output_timestamps"] = _by_name("OutputTimestamps", stamps, place, problems, _STAMPS)
    watermarks = config.get("Watermarks")
    if watermarks is not None:
        values["watermarks"] = _by_name("Watermarks", _for_all(watermarks), place, problems, _WATERMARKS)
    panes = config.get("EarlyPanes")
    if panes is not None:
        values["early_panes"] = _percents_by_step("EarlyPanes", panes, place, problems)
    limits = Limits()
    timeout_seconds = whole("JavaScriptTimeoutInSeconds", *JAVASCRIPT_SECONDS, "seconds")
    if timeout_seconds is not None:
        limits = replace(limits, javascript_seconds=timeout_seconds)
    megabytes = whole("JavaScriptMemoryInMB", *JAVASCRIPT_MEGABYTES, "MB")
    if megabytes is not None:
        limits = replace(limits, javascript_megabytes=megabytes)
    if limits != Limits():
        values["limits"] = limits
    locale = config.get("DataLocale")
    if isinstance(locale, str) and locale:
        values["data_locale"] = locale
    if problems:
        raise ProjectError("\n".join(problems))
    return JobSettings(**values)
