"""A decoded frame as planes of code values."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanarFrame:
    """One picture as stored: before rotation, in the colours of the file.

    `planes` are contiguous and writable [h, w], uint8 up to 8 bits and uint16 (native byte order,
    code values in the low bits) above, in the order Y, U, V, A or R, G, B, A or Y, A; alpha only
    where VideoInfo.has_alpha. `pts` and `duration` count in VideoInfo.time_base; a duration of 0
    is unknown. `captions` are those that the source has for this frame (triplets of bytes),
    `hdr10_plus` is its dynamic metadata (a message of user data), `stated` the kinds of statements,
    as `Statement.kind`, that it makes with it. Memory: the planes, 1.5 bytes a pixel for 4:2:0 of 8
    bits (12 MB for 4K).
    """

    planes: tuple[Plane, ...]
    pts: int
    duration: int = 0
    captions: bytes = b""
    hdr10_plus: bytes = b""
    stated: frozenset[str] = frozenset()

    @property
    def crc(self) -> int:
        """CRC-32 of all planes; computed at each call, about 1 ms for 1.5 MB."""
        value = 0
        for plane in self.planes:
            value = zlib.crc32(np.ascontiguousarray(plane).data, value)
        return value
