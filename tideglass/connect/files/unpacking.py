"""Reading gzip or deflate up to where it breaks: all that can be unpacked is returned, then what was wrong.

Python's own reader raises in the middle of a block and throws away what it had already unpacked of that
block, so that a file cut in its last byte would lose nearly all of its events.
"""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO, Protocol, cast

from tideglass.connect.files.file_format import Packing

#: Packed bytes unpacked at once: little enough that the state kept before each costs little.
_STEP_BYTES = 1 << 16
#: What zlib calls a format: gzip; deflate with zlib's header; deflate without any.
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
#: The one method zlib's header knows, and what its two bytes are a multiple of (RFC 1950).
_DEFLATE, _CHECK = 8, 31


class ByteReader(Protocol):
    """A file that is read from its beginning on: plain, or unpacked."""

    def readinto(self, buffer: Any, /) -> int | None: ...

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...

    def tell(self) -> int: ...


class Unpacked:
    """The content of a file of one or more members of gzip, or of one of deflate, up to its end or to the
    first byte that is wrong. Deflate may have zlib's header, and the service's .NET writes none.

    broken: what is wrong, in words, once reading has reached it. whole: whether what was read so far ends
    with a member that is right to its end; a last line is then whole without its line end.
    """

    def __init__(self, raw: BinaryIO, end: int, packing: Packing = "gzip") -> None:
        """raw: the packed file, of which the first `end` bytes count."""
        self._packing: Packing = packing
        self._raw = raw
        self._end = end
        self._restart()

    def _restart(self) -> None:
        self._raw.seek(0)
        self._unread = self._end
        self._packed = b""
        self._ready = b""  # unpacked, but more than was asked for
        self._place = 0
        self._member: Any = None
        self._member_ended = False  # whether a member has ended
        self.broken: str | None = None
        self.whole = True

    def readinto(self, buffer: Any, /) -> int:
        """As many bytes as fit and are left; 0 at the end or after the break."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            unpacked = self._some(len(view) - filled)
            if not unpacked:
                break
            view[filled : filled + len(unpacked)] = unpacked
            filled += len(unpacked)
        self._place += filled
        return filled

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, all that are left by default."""
        parts: list[bytes] = []
        wanted = size
        while wanted and (unpacked := self._some(wanted if size >= 0 else 1 << 24)):
            parts.append(unpacked)
            self._place += len(unpacked)
            wanted = wanted - len(unpacked) if size >= 0 else wanted
        return b"".join(parts)

    def seek(self, offset: int, /) -> int:
        """Go to a place of the content, or to where it breaks before that."""
        if offset < self._place:
            self._restart()
        while self._place < offset and self.read(min(offset - self._place, 1 << 24)):
            pass
        return self._place

    def tell(self) -> int:
        """The place in the content that is read next."""
        return self._place

    def _some(self, most: int) -> bytes:
        """At least one and at most `most` bytes more; none at the end or after the break."""
        if self._ready:
            unpacked, self._ready = self._ready[:most], self._ready[most:]
            return unpacked
        while self.broken is None:
            if not self._packed and self._unread:
                self._packed = self._raw.read(min(_STEP_BYTES, self._unread))
                # A file that is shorter than it was is found out where its length is known.
                self._unread = self._unread - len(self._packed) if self._packed else 0
            if self._member is None:
                if self._member_ended and self._packing == "deflate":
                    self.broken = "there is more behind its end" if self._packed or self._unread else None
                    return b""
                if self._member_ended:
                    self._packed = self._packed.lstrip(b"\0")  # members may be padded
                if not self._packed:
                    if self._unread:
                        continue
                    return b""
                self._member = zlib.decompressobj(_window_bits(self._packing, self._packed))
            ended = not self._packed and not self._unread
            unpacked = self._unpack(most)  # without packed bytes: what did not fit the last time
            if self._member is not None and self._member.eof:
                self._packed = cast("bytes", self._member.unused_data)
                self._member = None
                self._member_ended = True
                self.whole = True
            elif unpacked:
                self.whole = False
            if unpacked:
                return unpacked
            if ended and self._member is not None and self.broken is None:
                self.broken = "it ends in the middle of a member"
        return b""

    def _unpack(self, most: int) -> bytes:
        """Unpack of the bytes at hand, at most `most` bytes; up to the very byte that is wrong."""
        before = self._member.copy()
        try:
            unpacked = self._member.decompress(self._packed, most)
        except zlib.error as error:
            return self._up_to_the_break(before, most, error)
        self._packed = self._member.unconsumed_tail
        return unpacked

    def _up_to_the_break(self, member: Any, most: int, error: zlib.error) -> bytes:
        """The bytes before the break: ever smaller steps from the last place that was right.

        Where not even a byte can be asked for, zlib has looked beyond it; then packed bytes go in singly.
        """
        packed, parts, step, room = self._packed, list[bytes](), most, most
        while step and room:
            trial = member.copy()
            try:
                unpacked = trial.decompress(packed, min(step, room))
            except zlib.error:
                unpacked = b""
            if not unpacked:
                step //= 2
                continue
            member, packed = trial, trial.unconsumed_tail
            room -= len(unpacked)
            parts.append(unpacked)
        self._member, self._packed = member, packed
        if room:
            last = _byte_by_byte(member, packed)
            parts.append(last[:room])
            self._ready = last[room:]
            self.broken = str(error).split(": ")[-1]
        return b"".join(parts)


def _window_bits(packing: Packing, begin: bytes) -> int:
    """What zlib is told of a member that begins with these bytes."""
    if packing == "gzip":
        return _GZIP
    has_header = len(begin) > 1 and begin[0] & 15 == _DEFLATE and (begin[0] << 8 | begin[1]) % _CHECK == 0
    return _ZLIB if has_header else _BARE


def _byte_by_byte(member: Any, packed: bytes) -> bytes:
    """The unpacked bytes up to the packed one that is wrong."""
    parts: list[bytes] = []
    try:
        for place in range(len(packed)):
            parts.append(member.decompress(packed[place : place + 1]))
    except zlib.error:
        pass  # the break, which the caller knows of
    return b"".join(parts)
