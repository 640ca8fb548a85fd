"""How files come to their names: staged unseen by readers, and moved once their batch is whole.

The steps that the outputs of files share; see `files.output` for why they are right.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError
from tideglass.storage import StoragePath

#: The hidden folder of an output that tasks write to.
STAGING = "_staging"

#: Of a sender in the name of a file: batch, generation, digest and attempt stand beside it.
_MOST_CHARACTERS = 120


def file_prefix(batch: Batch) -> str:
    """How the names of the files of a batch begin.

    >>> file_prefix(Batch(1, 7)), file_prefix(Batch(2, 7))
    ('part-00000007-', 'part-g0002-00000007-')
    """
    generation = "" if batch.generation == 1 else f"g{batch.generation:04d}-"
    return f"part-{generation}{batch.number:08d}-"


def part_name(sender: str) -> str:
    """A sender's name as part of a file name, another for each sender.

    >>> part_name("toll/3"), part_name("stage 1 key group 0"), part_name("toll/gate 3")
    ('toll-3', 'stage-1-key-group-0', 'toll-gate-3-d1ba67be46482b3b')
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "-", sender)
    known = re.fullmatch(r"[A-Za-z0-9]+/[A-Za-z0-9]+|stage \d+ key group \d+", sender)
    if known and len(plain) <= _MOST_CHARACTERS:
        return plain
    digest = hashlib.sha256(sender.encode(errors="surrogatepass")).hexdigest()
    return f"{plain[:_MOST_CHARACTERS]}-{digest[:16]}"


@contextmanager
def staged_file(temporary: StoragePath) -> Generator[BinaryIO]:
    """A file to write to; on a disk its content is durable then, and its name once it is published."""
    if not temporary.is_local:
        with temporary.replacing() as file:
            yield file
        return
    temporary.parent.mkdir()
    with temporary.local.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def remove_file(file: StoragePath) -> None:
    file.unlink(missing_ok=True)


def publish_file(staged: tuple[StoragePath, StoragePath]) -> None:
    """Give a staged file its final name."""
    temporary, final = staged
    try:
        if temporary.is_local:
            os.replace(temporary, final)  # the folder is synced once for all files of the batch
        else:
            temporary.move(final)
    except FileNotFoundError as error:
        if not final.exists():  # else this commit is repeated, and had got this far
            raise OutputError(f"{temporary} was staged, but is gone; run the batch again") from error
