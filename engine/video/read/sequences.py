"""Numbered pictures that make a film: their names, without a look into them."""

from __future__ import annotations

import re
from pathlib import Path

from engine.core.errors import InputError, SourceMissing, UnsupportedMedia
from engine.core.system_errors import reading

_SUFFIXES_TEXT = """
    .png .jpg .jpeg .jpe .tif .tiff .webp .bmp .dib .exr .dpx .jp2 .j2k .jxl .qoi .psd .hdr .sgi
    .pgm .ppm .pnm .pam .pfm .tga .pcx
"""
_SUFFIXES = frozenset(_SUFFIXES_TEXT.split())
_PATTERN = re.compile(r"%%|%(?:0(\d+))?d")
_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")


def find_sequence(path: Path) -> tuple[str, int, int] | None:
    """The numbered pictures of a pattern or a folder.

    Args:
        path: A name with %d or %04d in it that is no file itself, or a folder.

    Returns:
        Pattern (with its folder), first index, pictures without a gap; None for other paths.

    Raises:
        UnsupportedMedia: There are no numbered pictures.
    """
    if path.is_dir():
        return _sequence_in(path)
    if _parts_of(path.name) is None or path.exists():
        return None
    indices = numbers_of(str(path))
    if not indices:
        raise _no_pictures(path)
    return str(path), indices[0], _run_length(indices)


def sequence_file(pattern: str, number: int) -> Path:
    """One file of a sequence; only the number in the name is filled in, never in the folder.

    Raises:
        ValueError: The name has no %d in it.
    """
    path = Path(pattern)
    parts = _parts_of(path.name)
    if parts is None:
        raise ValueError(f"{pattern!r} is no pattern")
    start, width, end = parts
    return path.with_name(f"{start}{number:0{width}d}{end}")


def _parts_of(name: str) -> tuple[str, int, str] | None:
    """Text before the number, minimum width of the number, text after it; None for no pattern."""
    for match in _PATTERN.finditer(name):
        if match[0] != "%%":
            start, end = name[: match.start()], name[match.end() :]
            return start.replace("%%", "%"), int(match[1] or 0), end.replace("%%", "%")
    return None


def numbers_of(pattern: str) -> list[int]:
    """Indices of the files of a sequence, ascending."""
    path, found = Path(pattern), list[int]()
    parts = _parts_of(path.name)
    if parts is None or not path.parent.is_dir():
        return []
    start, _, end = parts
    for file in path.parent.iterdir():
        digits = file.name[len(start) : len(file.name) - len(end)]
        named = file.name.startswith(start) and file.name.endswith(end) and digits.isascii()
        if named and digits.isdigit() and sequence_file(pattern, int(digits)).name == file.name:
            found.append(int(digits))
    return sorted(found)


def _run_length(indices: list[int]) -> int:
    count = 1
    while count < len(indices) and indices[count] == indices[0] + count:
        count += 1
    return count


def _sequence_in(folder: Path) -> tuple[str, int, int]:
    """The longest numbered sequence in a folder, by name where two are equally long."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    with reading(folder):
        names = sorted(file.name for file in folder.iterdir() if file.is_file())
    for name in names:
        match = _NUMBERED.match(name)
        if match and Path(name).suffix.lower() in _SUFFIXES:
            width = len(match[2]) if match[2].startswith("0") else 0
            groups.setdefault((match[1], match[3], width), []).append(int(match[2]))
    groups = _joined(groups)
    if not groups:
        raise _no_pictures(folder)
    (start, end, width), indices = max(groups.items(), key=lambda item: len(item[1]))
    digits = f"%0{width}d" if width else "%d"
    pattern = start.replace("%", "%%") + digits + end.replace("%", "%%")
    return str(folder / pattern), min(indices), _run_length(sorted(indices))


def _joined(
    groups: dict[tuple[str, str, int], list[int]],
) -> dict[tuple[str, str, int], list[int]]:
    """Joins 0998, 0999 and 1000, 1001: the same pattern with and without leading zeros."""
    for start, end, width in [key for key in groups if key[2]]:
        plain = groups.get((start, end, 0), [])
        same = [number for number in plain if len(str(number)) >= width]
        groups[start, end, width] += same
        if plain:
            groups[start, end, 0] = [number for number in plain if number not in set(same)]
    return {key: indices for key, indices in groups.items() if indices}


def _no_pictures(path: Path) -> InputError:
    if path.is_dir():
        return UnsupportedMedia("folder-without-pictures", name=path.name, path=path)
    return SourceMissing("no-such-pictures", name=path.name, path=path)
