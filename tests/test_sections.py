"""Which tests hold which section of `docs/asa.md`, and each recommended answer of its section 12.

A name with a slash is a case (or several, by a pattern), another one a test function.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SPECIFICATION = TESTS.parent / "docs" / "asa.md"
#: What is no behaviour of a query: services, sinks of the cloud, theory.
NOT_OF_THE_LANGUAGE = re.compile(r"(6\.[4-7]|7\.|8\.|9\.|10\.|11\.)")
NOT_YET = "understood, not yet supported"

SECTIONS: dict[str, str] = {
    "1.1": "time/arrival_time_is_the_default time/metadata_columns",
    "1.2": "time/bad_timestamps_are_discarded time/iso_forms time/epoch_milliseconds "
    "time/timestamp_by_case time/null_substream_key_is_discarded errors/system_timestamp_in_timestamp_by "
    "errors/timestamp_by_on_a_step",
    "1.3": "joins/left_unmatched joins/inner windows/snapshot_over_windows time/the_payload_keeps_its_time",
    "1.4": "time/early_* time/late_* time/out_of_order_is_dropped_under_drop time/buffered_events_are_sorted "
    "time/on_the_watermark_is_in_order",
    "1.5": "idle/* metrics/* time/watermark_after_each_batch "
    "test_silence_raises_the_watermark_to_the_estimated_arrival_less_late "
    "time/on_the_watermark_is_in_order",
    "1.6": "partitions/* windows/partitions_merge time/partitions_have_their_own_watermark "
    "language/union_with_a_silent_input",
    "1.7": "time/substreams_* time/late_limit_is_global_for_substreams errors/mixed_over "
    "errors/substream_key_not_grouped errors/substream_key_not_joined "
    "test_substreams_of_several_partitions_need_the_partition_among_their_keys",
    "1.8": "test_watermarks_are_drawn_by_partition_with_their_delay test_account",
    "1.9": "time/twelve_events_*",
    "1.10": "time/late_15s_out_of_order_5s time/late_10m_out_of_order_3m",
    "2.1": "test_parser test_printer",
    "2.2": "language/bitwise language/bracketed_names language/string_literals language/comments "
    "language/arithmetic_precedence language/double_quotes_* types/level_1_0_*",
    "2.3": "language/star* language/listed_* language/record_star* language/default_name* "
    "language/having_aliases "
    "errors/star_with_join",
    "2.4": "language/several_outputs language/into_one_output errors/into_inside_with errors/partition_count",
    "2.5": "language/steps_are_shared errors/duplicate_step errors/step_is_later",
    "2.6": "test_null language/null_* language/not_of_a_null_comparison_is_true language/having* "
    "language/like language/between_is_inclusive language/in_list errors/in_subquery errors/exists_subquery",
    "2.7": "windows/group_by_* errors/two_windows errors/date_part_is_no_window windows/tumbling_null_key "
    "errors/alias_in_where",
    "2.8": "joins/* errors/join_* errors/cross_join_of_streams errors/partition_key_not_joined "
    "errors/full_join",
    "2.9": "reference/*",
    "2.10": "language/union* errors/union_columns",
    "2.11": "apply/*",
    "2.12": "language/case_* language/coalesce_and_nullif errors/case_without_else",
    "2.13": "types/create_table_* errors/duplicate_table errors/table_of_unknown_type "
    "test_a_declared_column_takes_what_converts_without_loss",
    "2.14": "patterns/* errors/pattern_* errors/match_* test_bind_pattern test_patterns test_pattern_kernel",
    "3.1": "windows/tumbling_boundary windows/tumbling_unit_abbreviations windows/fractional_size "
    "windows/no_events_no_rows errors/window_* windows/before_1970",
    "3.2": "windows/tumbling_*",
    "3.3": "windows/hopping_*",
    "3.4": "windows/sliding_*",
    "3.5": "windows/session_*",
    "3.6": "windows/snapshot*",
    "3.7": "windows/windows_* errors/window_ids_* windows/window_of_a_plain_window",
    "4.1": "aggregates/*",
    "4.2": "analytic/* errors/analytic_* errors/lag_offset_zero errors/isfirst_with_limit",
    "4.3": "analytic/anomaly_* analytic/change_point* errors/anomaly_* failures/*_detector "
    "test_detectors_give_the_oracles_rows_in_any_batches_and_restarts",
    "4.4": "functions/arrays functions/records functions/json_parse functions/gettype types/try_cast_*",
    "4.5": "functions/date*",
    "4.6": "functions/round functions/power_exp_sqrt_square functions/abs_ceiling_floor_sign",
    "4.7": "functions/substring functions/stuff functions/charindex functions/patindex functions/regexmatch "
    "functions/replace functions/translate functions/concat* functions/trim functions/len "
    "functions/left_right "
    "functions/replicate_and_space functions/nchar_and_unicode functions/case_and_reverse "
    "functions/numbers_longer_than_texts functions/null_*",
    "4.8": "functions/geospatial_* test_geospatial",
    "4.9": "time/metadata_columns time/metadata_before_fields metadata/properties_of_recorded_events "
    "metadata/whole_records metadata/processed_time metadata/event_id_differs_and_stays "
    "metadata/aliases_below_level_1_2",
    "4.10": "windows/hopping_offset_form windows/session_named_form windows/tumbling_duration_form",
    "4.11": "udf/* uda/* test_users_aggregates_give_the_oracles_rows_in_any_batches_and_restarts",
    "5.1": "types/types_belong_to_values types/large_bigints types/integers_beyond_bigint_are_rejected "
    "types/seven_digits",
    "5.2": "types/cast_* types/arithmetic_on_mixed_types failures/*",
    "5.3": "types/booleans_* types/iso_text_stays_text types/seven_digits test_json test_csv test_parquet",
    "5.4": NOT_YET,
    "5.5": "types/level_1_0_* types/booleans_at_level_1_1 types/create_table_float_at_level_1_0 "
    "errors/bit_below_level_1_2 errors/prefixed_function",
    "6.1": "test_file_input test_messages test_path_patterns test_blob_files test_capture",
    "6.2": "test_bad_input",
    "6.3": "reference/snapshots reference/no_snapshot test_reference_files test_reference_sql",
    "A-01": "time/twelve_events_*",
    "A-02": "time/twelve_events_*",
    "A-03": "time/early_is_dropped_under_adjust_too",
    "A-04": "test_without_a_late_limit_nothing_is_late_and_silence_moves_nothing",
    "A-05": "test_by_arrival_time_silence_follows_the_estimated_arrival_at_the_allowance",
    "A-06": "regressions/substream_caught_up_by_its_partition",
    "A-07": "test_policies",
    "A-08": "language/double_quotes_* language/quoted_name_with_brackets",
    "A-09": "language/names_ignore_case",
    "A-10": "language/star_left_of_listed_column language/listed_column_left_of_star",
    "A-11": "language/default_names",
    "A-12": "language/derived_table* errors/in_subquery",
    "A-13": "patterns/greedy_gives_back patterns/alternation patterns/null_condition patterns/under_windows",
    "A-14": "windows/fractional_size errors/window_of_size_zero errors/window_too_long",
    "A-15": "windows/tumbling_seven_*",
    "A-16": "windows/tumbling_boundary",
    "A-17": "windows/session_reopened_at_the_cut windows/session_cut_* windows/session_event_at_the_cut",
    "A-18": "aggregates/average_of_bigints",
    "A-19": "language/integer_division language/overflow language/division_by_zero",
    "A-20": "time/timestamp_by_in_a_bare_step errors/timestamp_by_on_a_step",
    "A-21": "reference/snapshots",
    "A-22": "test_replay",
    "A-23": "time/late_then_out_of_order",
    "A-24": "test_floats_agree_within_a_billionth_and_types_must_agree",
    "A-25": "joins/boundary_count joins/left_unmatched",
    "A-26": "analytic/duration_bound",
    "A-27": "analytic/ties_by_arrival",
    "A-28": "windows/timestamp_beside_a_window_is_a_key",
    "A-29": "types/text_order",
    "A-30": "types/equality_across_types",
    "A-31": "language/plus_concatenates functions/concat",
    "A-32": "time/iso_forms",
    "A-33": "failures/names_*",
    "A-34": "language/union_order_of_ties",
    "A-35": "test_a_case_holds_event_by_event_with_a_restart_after_each",
    "A-36": "test_policies",
    "A-37": "reference/star errors/star_with_join",
    "A-38": "language/union_into errors/into_in_second_select",
    "A-39": "windows/hopping_longer_than_size",
    "A-40": "language/listed_columns_are_null_when_absent",
}


@cache
def named_tests() -> str:
    """Names of all test modules and functions, a line each."""
    paths = sorted(TESTS.rglob("test_*.py"))
    names = [name for p in paths for name in re.findall(r"^def (test_\w+)", p.read_text("utf-8"), re.M)]
    return "\n".join([*(path.stem for path in paths), *names])


def is_there(name: str) -> bool:
    if "/" in name:
        return any((TESTS / "cases").glob(f"{name}.case"))
    return re.search(f"^{name.replace('*', '.*')}$", named_tests(), re.M) is not None


def test_every_section_and_every_answer_is_in_the_table() -> None:
    text = SPECIFICATION.read_text(encoding="utf-8")
    sections = re.findall(r"^### (\d+\.\d+) ", text, re.M) + re.findall(r"^\| (A-\d+) \|", text, re.M)
    wanted = [section for section in sections if not NOT_OF_THE_LANGUAGE.match(section)]
    assert sorted(SECTIONS) == sorted(wanted)


@pytest.mark.parametrize("section", SECTIONS)
def test_what_is_said_to_hold_a_section_is_there(section: str) -> None:
    held_by = SECTIONS[section]
    if held_by != NOT_YET:
        assert [name for name in held_by.split() if not is_there(name)] == []
