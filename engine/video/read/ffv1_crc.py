"""Checksums of FFV1's slices: the decoder of FFmpeg conceals damage without a sign of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_FOOTER = 8  # bytes: 3 of the slice's size, 1 of its state, 4 of its CRC
_ALL = 0xFFFFFFFF
_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def has_checksums(packet: bytes) -> bool:
    """Whether each slice of a frame ends in a checksum: version 3 with the option `slicecrc`."""
    return sum(map(len, _slices(packet))) == len(packet)


def is_damaged(packet: bytes) -> bool:
    """Whether a checksum does not fit, in a frame of a stream that has them."""
    return not has_checksums(packet) or any(_remainder(one) for one in _slices(packet))


def _slices(packet: bytes) -> Iterator[bytes]:
    """Slices from the last to the first, as far as their sizes lead."""
    end = len(packet)
    while end >= _FOOTER:
        begin = end - _FOOTER - int.from_bytes(packet[end - _FOOTER : end - _FOOTER + 3], "big")
        if begin < 0:
            return
        yield packet[begin:end]
        end = begin


def _remainder(data: bytes) -> int:
    """CRC-32 with the highest bit first and without inversions; 0 over data with their own CRC.

    zlib computes it with the lowest bit first, so bytes are reversed.
    """
    return zlib.crc32(data.translate(_REVERSED), _ALL) ^ _ALL
