"""Finished pictures to files: one still, or a folder of numbered ones."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import OutputError
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.video.write.containers import output_suffix
from engine.video.write.errors import writing
from engine.video.write.picture_pack import pictures_in
from engine.video.write.segment_file import SegmentFile

_NUMBER = re.compile(r"%0?(\d*)d")


def export_images(
    media: MediaInfo,
    plan: Plan,
    segments: Sequence[SegmentFile],
    target: Path,
    *,
    control: Control,
    progress: Callable[[int, int], None],
) -> None:
    """Write the pictures of all segments.

    Args:
        media: The source; a sequence gives its numbers and names to the new pictures.
        plan: "image" writes the one picture to the file `target`, "sequence" all of them into the
            new folder `target`.
        segments: In order.
        target: File or folder; removed again when something goes wrong.
        control: Looked at between pictures.
        progress: Called with pictures done and their number.

    Raises:
        Cancelled: The user stopped.
        DiskFull, OutputUnwritable: The pictures cannot be written.
        OutputError: A segment is damaged.

    Memory: one encoded picture.
    """
    total = sum(len(segment.pts) for segment in segments)
    try:
        with writing(target):
            if plan.container == "sequence":
                _clear(target)
                target.mkdir()
            for number, picture in enumerate(_pictures(segments)):
                control.check()
                _save(_name(media, plan, target, number), picture)
                progress(number + 1, total)
    except BaseException:
        with suppress(OSError):  # the first error counts
            _clear(target)
        raise


def _pictures(segments: Sequence[SegmentFile]) -> Iterator[bytes]:
    for segment in segments:
        count = 0
        try:
            for picture in pictures_in(segment.path):
                yield picture
                count += 1
        except (zipfile.BadZipFile, OSError) as err:
            raise _damaged(segment.path) from err
        if count != len(segment.pts):
            raise _damaged(segment.path)


def _name(media: MediaInfo, plan: Plan, target: Path, number: int) -> Path:
    if plan.container == "image":
        return target
    suffix = output_suffix("sequence", plan.picture.codec)
    pattern = plan.pattern or Path(media.pattern).name
    match = _NUMBER.search(pattern)
    if match is None:
        return target / f"frame_{number + 1:06d}{suffix}"
    first = media.first_number if media.pattern else 1
    digits = f"{first + number:0{int(match[1] or 1)}d}"
    name = pattern[: match.start()] + digits + pattern[match.end() :]
    return target / (Path(name).stem + suffix)


def _save(path: Path, picture: bytes) -> None:
    with path.open("wb") as file:
        file.write(picture)
        file.flush()
        os.fsync(file.fileno())


def _clear(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _damaged(path: Path) -> OutputError:
    return OutputError(
        f"The finished piece {path.name} is damaged.",
        hint="Remove the job and run it again.",
        path=path,
    )
