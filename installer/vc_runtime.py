"""Which copies of Microsoft's C++ runtime go into the Windows program: of each library the newest.

Qt, numpy and Python each bring copies of their own. Whichever is loaded first serves the whole
process, and a torch newer than that copy fails to load (WinError 1114). So one copy of each, the
newest, lies at the top of the packed folder, where every library finds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NAMES = re.compile(
    r"(concrt140|msvcp140(_1|_2|_atomic_wait|_codecvt_ids)?|vcruntime140(_1|_threads)?)\.dll",
    re.IGNORECASE,
)

Copy = tuple[str, tuple[int, ...], str]
"""A copy of a library: its file name, its version, where it lies."""


def newest(copies: Iterable[Copy]) -> dict[str, str]:
    """Place of the newest copy of each library, by its name in small letters.

    Of copies of one version the first is taken.
    """
    best: dict[str, tuple[tuple[int, ...], str]] = {}
    for name, version, place in copies:
        known = best.get(name.lower())
        if known is None or version > known[0]:
            best[name.lower()] = (version, place)
    return {name: place for name, (_, place) in best.items()}


def is_part(place: str) -> bool:
    """Whether a file, by its place in the packed folder, is a library of the C++ runtime."""
    return NAMES.fullmatch(place.replace("\\", "/").rpartition("/")[2]) is not None


def version_of(place: str) -> tuple[int, ...]:
    """Version of a library as its file says; (0,) where it says none.

    Reads the file itself: Wine 8 does not list the resources of Microsoft's libraries.
    """
    import pefile  # on Windows a part of PyInstaller

    with pefile.PE(place, fast_load=True) as file:
        file.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
        for info in getattr(file, "VS_FIXEDFILEINFO", ()):
            high, low = info.FileVersionMS, info.FileVersionLS
            return (high >> 16, high & 0xFFFF, low >> 16, low & 0xFFFF)
    return (0,)
