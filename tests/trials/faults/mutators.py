"""Mutations of files: of any bytes, of the boxes, elements and packets of containers, of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random], bytes]

_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def flipped(data: bytes, rng: Random) -> bytes:
    """Some bytes have other values."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16, 64))):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def flipped_head(data: bytes, rng: Random) -> bytes:
    """Some of the first 512 bytes have other values."""
    return flipped(data[:512], rng) + data[512:]


def cut(data: bytes, rng: Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data))]


def holed(data: bytes, rng: Random) -> bytes:
    """A piece is missing, or zeros."""
    begin, end = _span(data, rng)
    return data[:begin] + bytes(end - begin) * rng.randrange(2) + data[end:]


def repeated(data: bytes, rng: Random) -> bytes:
    """A piece comes twice, or somewhere else again."""
    begin, end = _span(data, rng)
    at = rng.choice((end, rng.randrange(len(data))))
    return data[:at] + data[begin:end] + data[at:]


def stuffed(data: bytes, rng: Random) -> bytes:
    """Random bytes come between."""
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.choice((1, 7, 100, 5000))) + data[at:]


def extreme(data: bytes, rng: Random) -> bytes:
    """An integer of one, two, four or eight bytes is the least or the largest."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 3))):
        size = rng.choice((1, 2, 4, 4, 8))
        value = rng.choice(_EXTREMES) & (256**size - 1)
        at = rng.randrange(min(len(found), rng.choice((256, 4096, len(found)))))
        found[at : at + size] = value.to_bytes(size, rng.choice(("big", "little")))
    return bytes(found[: len(data)])


ANY: tuple[Mutation, ...] = (flipped, flipped_head, cut, holed, repeated, stuffed, extreme)


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    begin = rng.randrange(len(data))
    return begin, min(len(data), begin + rng.choice((1, 4, 16, 188, 1000, len(data) // 4 + 1)))


# --- parts of containers


def without_packets(data: bytes, rng: Random) -> bytes:
    """Some packets of 188 bytes of a transport stream are lost, swapped or damaged."""
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(packets))
        match rng.randrange(3):
            case 0:
                del packets[at]
            case 1:
                packets[at], packets[-1] = packets[-1], packets[at]
            case _:
                packets[at] = packets[at][:4] + flipped(packets[at][4:] or b"\0", rng)
        packets = packets or [bytes(188)]
    return b"".join(packets)


def without_boxes(data: bytes, rng: Random) -> bytes:
    """A box of an MP4 at any depth is lost, comes twice, has another name or size."""
    boxes = [(at, size) for at, size in _boxes(data, 0, len(data))]
    return _changed_part(data, boxes, rng, _renamed_box)


_NESTED = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"dinf", b"udta", b"moof", b"traf")


def _boxes(data: bytes, begin: int, end: int) -> list[tuple[int, int]]:
    found = []
    while begin + 8 <= end:
        size = int.from_bytes(data[begin : begin + 4], "big")
        if size < 8 or begin + size > end:
            break
        found.append((begin, size))
        if data[begin + 4 : begin + 8] in _NESTED:
            found += _boxes(data, begin + 8, begin + size)
        begin += size
    return found


def _renamed_box(data: bytes, at: int, rng: Random) -> bytes:
    change = rng.choice((b"free", b"moov", b"trak", b"stsz"))
    if rng.randrange(2):
        return data[: at + 4] + change + data[at + 8 :]
    size = rng.choice((0, 1, 7, 8, 0xFFFFFFFF, rng.randrange(2000)))
    return data[:at] + size.to_bytes(4, "big") + data[at + 4 :]


def without_elements(data: bytes, rng: Random) -> bytes:
    """An element of a Matroska at any depth is lost, comes twice, has another name or size."""
    return _changed_part(data, _elements(data, 0, len(data)), rng, _resized_element)


# Segment, Info, Tracks, TrackEntry, Video, Audio, Cluster, BlockGroup, Cues, SeekHead
_MASTERS = {0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0xE0, 0xE1, 0x1F43B675, 0xA0, 0x1C53BB6B}
_MASTERS |= {0x114D9B74, 0x1A45DFA3, 0x1254C367}


def _elements(data: bytes, begin: int, end: int) -> list[tuple[int, int]]:
    found = []
    while begin + 2 <= end:
        name_bytes, size_at = _vint_bytes(data[begin]), begin + _vint_bytes(data[begin])
        if size_at >= end:
            break
        size_bytes = _vint_bytes(data[size_at])
        raw = int.from_bytes(data[size_at : size_at + size_bytes], "big")
        size = raw & (2 ** (7 * size_bytes) - 1)
        inside = size_at + size_bytes
        stop = end if size == 2 ** (7 * size_bytes) - 1 else inside + size  # of unknown size
        if stop > end:
            break
        found.append((begin, stop - begin))
        if int.from_bytes(data[begin : begin + name_bytes], "big") in _MASTERS:
            found += _elements(data, inside, stop)
        begin = stop
    return found


def _vint_bytes(first: int) -> int:
    return 9 - first.bit_length() if first else 8


def _resized_element(data: bytes, at: int, rng: Random) -> bytes:
    place = at + (0 if rng.randrange(3) == 0 else _vint_bytes(data[at]))
    return data[:place] + rng.randbytes(1) + data[place + 1 :]


def _changed_part(
    data: bytes,
    parts: list[tuple[int, int]],
    rng: Random,
    changed: Callable[[bytes, int, Random], bytes],
) -> bytes:
    if not parts:
        return cut(data, rng)  # an earlier mutation has left none
    at, size = rng.choice(parts)
    match rng.randrange(4):
        case 0:
            return data[:at] + data[at + size :]
        case 1:
            return data[:at] + data[at : at + size] * 2 + data[at + size :]
        case 2:
            inside = data[at + 8 : at + size] or b"\0"
            return data[: at + 8] + rng.choice((flipped, extreme))(inside, rng) + data[at + size :]
    return changed(data, at, rng)


# --- texts: JSON and TOML

_WORDS = (
    *("NaN", "Infinity", "-Infinity", "nan", "inf", "1e999", "1e-999", "-1", "0", "1" + "0" * 400),
    *("9" * 5000, "null", "true", "[]", "{}", "[[]]", '""', '"1/0"', '"0/0"', '"1e999999999"'),
    *('"1/1e99999999"', '"9999999999999999999/1"', '"../../x"', '"a\\u0000b"', '"\\ud800"'),
    *("[1, 2]", '{"a": 1}', "1979-05-27", '"' + "x" * 5000 + '"', "[" * 3000 + "]" * 3000),
    *("[" * 200, '{"a":' * 3000 + "1" + "}" * 3000, "0x7fffffffffffffff", "18446744073709551616"),
)  # fmt: skip
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')


def other_values(data: bytes, rng: Random) -> bytes:
    """Some values of a text are of another kind, or impossible."""
    text = data.decode("utf-8")
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        values = list(_VALUE.finditer(text))
        if not values:
            break
        found = rng.choice(values)
        text = text[: found.start()] + rng.choice(_WORDS) + text[found.end() :]
    return text.encode("utf-8", "surrogatepass")


def without_lines(data: bytes, rng: Random) -> bytes:
    """A line, or what is between two commas, is lost, or comes twice."""
    mark = rng.choice((b"\n", b","))
    parts = data.split(mark)
    at = rng.randrange(len(parts))
    parts[at : at + 1] = [] if rng.randrange(2) else [parts[at]] * 2
    return mark.join(parts)


TEXT: tuple[Mutation, ...] = (other_values, other_values, without_lines, flipped, cut, holed)
