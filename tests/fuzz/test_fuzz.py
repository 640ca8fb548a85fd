"""A short run of the fuzzer over every target, and that it notices what it is there to notice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz import counting
from fuzz.campaign import run
from fuzz.minimise import minimised
from fuzz.targets import TARGETS, trial_of
from fuzz.trial import Finding, Trial, load
from fuzz.watch import Watch
from support.depth import depth

#: Trials of the short run, of which the profile `deep` has twice as many; the command runs for an hour.
SHORT = {"query": 60, "file": 20, "message": 20, "project": 40, "job": 40}


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    watch = Watch(seconds=60)
    yield watch
    watch.close()


@pytest.mark.parametrize("target", SHORT)
def test_nothing_breaks_in_a_short_run(target: str, watch: Watch) -> None:
    found = [watch.check(trial_of(target, f"short:{n}")) for n in range(depth(2 * SHORT[target]))]
    assert [finding.report for finding in found if finding is not None] == []


def test_every_target_of_a_campaign_has_a_short_run() -> None:
    assert set(SHORT) == {name for name, target in TARGETS.items() if target.share}


def test_a_seed_stands_for_one_trial() -> None:
    for target in SHORT:
        trials = [trial_of(target, seed) for seed in ("1", "1", "2")]
        assert trials[0] == trials[1] != trials[2]


def test_a_found_trial_is_kept_whole_in_a_file(tmp_path: Path) -> None:
    trial = Trial("file", {"a.json": b"\xff\x00\r\n", "b": "é".encode()}, {"limits": [1]}, "7")
    assert load(Finding(trial, "file: broken", "a\nb").keep(tmp_path)) == trial


# ---------------------------------------------------------------- what is broken on purpose


def drilled(watch: Watch, content: bytes) -> Finding:
    found = watch.check(Trial("drill", {"do": content}))
    assert found is not None
    assert watch.check(Trial("drill", {"do": b""})) is None, "the campaign does not go on"
    return found


@pytest.mark.parametrize(
    ("content", "signature"),
    [
        (b"crash", "drill: dies of SIGSEGV"),
        (b"leave", "drill: ends its process with 7"),
        (b"break", "drill: a drill"),
        (b"fail", "drill: ZeroDivisionError outside of the project"),
    ],
)
def test_what_a_trial_does_to_its_process_is_a_finding(watch: Watch, content: bytes, signature: str) -> None:
    assert drilled(watch, content).signature == signature


@pytest.mark.long
@pytest.mark.parametrize("content", [b"spin", b"hang"])
def test_a_trial_that_hangs_is_ended_and_shows_where(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.watch._WAITED_FACTOR", 3)
    watch = Watch(seconds=1.0)
    found = drilled(watch, content)
    watch.close()
    assert found.signature == "drill: hangs"
    assert "in _drill" in found.report


def test_a_finding_is_made_smaller(watch: Watch) -> None:
    lines = b"\n".join(b"good %d" % n for n in range(40))
    finding = watch.check(Trial("drill", {"do": lines + b"\n this is bad news\n" + lines}))
    assert finding is not None
    assert minimised(finding, watch).trial.files == {"do": b"bad"}


def test_a_campaign_keeps_one_file_of_each_kind_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = replace(TARGETS["drill"], make=lambda rng: Trial("drill", {"do": b"bad"}), share=1)
    monkeypatch.setitem(TARGETS, "drill", target)  # type: ignore[arg-type]
    assert run(["drill"], "7", 1.0, tmp_path, 20.0) == 1
    (kept,) = tmp_path.glob("*.json")
    assert json.loads(kept.read_text())["signature"] == "drill: ValueError outside of the project"
    assert "1 kinds of findings" in capsys.readouterr().out


# ---------------------------------------------------------------- the independent reader


def test_the_independent_reader_counts_what_is_in_json() -> None:
    lines = b'\n{"a":1}\r\n{"a":\n[{"a":2},{"a":NaN}]\n \n{"a":3}'
    verdicts = [event.verdict for event in counting.json_lines(lines) or []]
    assert verdicts == [True, False, True, False, True]
    assert counting.json_lines(b'{"a":1}\n"x"},{') is None
    assert counting.whole_objects(b'{"a":1}\n{"a":\n{"a":"x","b":[2]}\n') == 2
    assert counting.json_event(b'{"a":9223372036854775808}').verdict is False
    assert counting.json_event(b'{"a":"\\ud800"}').verdict is False
    assert counting.json_event(b'{"a":1e400}').verdict is None
    assert counting.json_event(b'{"a":1,"a":2}').value == {"a": 1}
    mixed = counting.json_values(b'[{"a":1},{"a":2}]\n{"a":3}\n[{"a":[4,{}]}]')
    assert [event.value["a"] for event in mixed or []] == [1, 2, 3, [4, {}]]
    assert counting.json_values(b'[{"a":1}') is None


def test_the_independent_reader_counts_the_rows_of_csv() -> None:
    text = b'a,b\n"x\n""y",1\r\n\n2,b\n"open\n,3'
    assert counting.csv_rows(text, ",") == [b"a,b\n", b'"x\n""y",1\r\n', b"2,b\n", b'"open\n,3']
    assert counting.csv_rows(b'a,b\n2,a"b"\n', ",") is None


def test_the_independent_reader_unpacks_up_to_the_break() -> None:
    import gzip

    packed = gzip.compress(b"one\n" * 1000) + gzip.compress(b"two\n")
    assert counting.unpacked(packed + b"\x00\x00") == counting.Unpacked(b"one\n" * 1000 + b"two\n", True)
    assert counting.unpacked(packed[:-4]) == counting.Unpacked(b"one\n" * 1000 + b"two\n", False)
    assert not counting.unpacked(packed + b"garbage").whole
