"""Tables of typed values, as tasks stage them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tideglass.core.types import Type, field


def typed_table(**columns: tuple[list[Any], Type]) -> pa.Table:
    """A column for each name; `payload` is the column of the event's further fields."""
    fields = [field(name.replace("payload", "$payload"), type_) for name, (_, type_) in columns.items()]
    return pa.table(
        [pa.array(values, each.type) for (values, _), each in zip(columns.values(), fields, strict=True)],
        schema=pa.schema(fields),
    )
