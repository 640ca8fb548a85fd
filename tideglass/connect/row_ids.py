"""Ids of rows that are the same when a batch is run again, so that who reads twice can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import pyarrow as pa

from tideglass.connect.output import Batch
from tideglass.core.json_rows import json_lines

#: Of an id; it is written with two hexadecimal digits a byte.
_BYTES = 16


def row_ids(output: str, batch: Batch, rows: pa.Table | Sequence[pa.Table]) -> list[str]:
    """An id for each row of an output in a batch: 32 hexadecimal digits.

    It is a digest of job, output, generation, batch, the row's JSON, and which it is among equal rows of the
    batch. So it needs all rows of the batch, and is the same however they are ordered or cut into parts; rows
    of parts are numbered through.
    """
    parts = [rows] if isinstance(rows, pa.Table) else rows
    head = "\0".join((batch.job_id, output, str(batch.generation), str(batch.number)))
    begin = blake2b(head.encode(errors="surrogatepass"), digest_size=_BYTES)
    seen: Counter[str] = Counter()
    found: list[str] = []
    for part in parts:
        for text in json_lines(part).to_pylist():
            digest = begin.copy()
            digest.update(f"\0{seen[text]}\0{text}".encode())
            found.append(digest.hexdigest())
            seen[text] += 1
    return found
