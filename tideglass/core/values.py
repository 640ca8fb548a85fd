"""Columns and rows of typed values, in one place to import from (`core.columns`, `core.rows`, `core.iso`)."""

from __future__ import annotations

from tideglass.core.columns import (
    by_columns,
    canonical_text,
    classify_json,
    coded_text,
    from_variant,
    settle,
    split_by_types,
    to_variant,
    unify,
)
from tideglass.core.iso import flat, texts_of_ticks, ticks_of_texts
from tideglass.core.rows import compact_json, json_lines, rows_of, table_of

__all__ = [
    "by_columns",
    "canonical_text",
    "classify_json",
    "coded_text",
    "compact_json",
    "flat",
    "from_variant",
    "json_lines",
    "rows_of",
    "settle",
    "split_by_types",
    "table_of",
    "texts_of_ticks",
    "ticks_of_texts",
    "to_variant",
    "unify",
]
