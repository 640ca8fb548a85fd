"""Messages whose payload is compressed as a whole: GZip or Deflate (`asa.md` 6.1)."""

from __future__ import annotations

import zlib

import pyarrow as pa

from tideglass.connect.formats.decoded import INVALID_COMPRESSION, Refusals

#: Most bytes of an unpacked message: a message of a megabyte can hold a gigabyte of blanks.
MOST_BYTES = 1 << 26

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


def unpacked_payloads(payloads: pa.Array, compression: str, refusals: Refusals) -> pa.Array:
    """The payloads unpacked; NULL, and a refusal, for one that is not compressed so."""
    result: list[bytes | None] = []
    for place, payload in enumerate(payloads.cast(pa.binary()).to_pylist()):
        try:
            result.append(None if payload is None else unpacked(payload, compression))
        except (zlib.error, ValueError) as error:
            message = f"the message is no {'GZip' if compression == 'gzip' else 'Deflate'}: {error}"
            refusals.add(INVALID_COMPRESSION, message, [place], [payload])
            result.append(None)
    return pa.array(result, pa.binary())


def unpacked(payload: bytes, compression: str) -> bytes:
    """The content of a message. Raises zlib.error or ValueError.

    >>> unpacked(zlib.compress(b"{}"), "deflate"), unpacked(zlib.compress(b"{}")[2:-4], "deflate")
    (b'{}', b'{}')
    """
    if compression == "gzip":
        return _unpacked(payload, _GZIP)
    try:
        return _unpacked(payload, _RAW)  # as .NET writes it
    except (zlib.error, ValueError) as error:
        if len(payload) > 2 and payload[0] & 15 == 8 and int.from_bytes(payload[:2], "big") % 31 == 0:
            return _unpacked(payload, _ZLIB)
        raise error


def _unpacked(payload: bytes, window_bits: int) -> bytes:
    found = bytearray()
    while payload:
        member = zlib.decompressobj(window_bits)
        found += member.decompress(payload, MOST_BYTES - len(found))
        if not member.eof:
            longer = len(found) >= MOST_BYTES
            raise ValueError(f"it holds more than {MOST_BYTES:,} bytes" if longer else "it ends too soon")
        payload = member.unused_data
        if window_bits != _GZIP and payload:
            raise ValueError("bytes follow its end")
    return bytes(found)
