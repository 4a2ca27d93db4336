"""Size and name of the result."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

from engine.core.errors import SettingsError, UnsupportedMedia
from engine.core.geometry import Size
from engine.core.paths import NOT_IN_NAMES
from engine.core.units import clock_text, parse_clock
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import Plan
from engine.settings.schema import IMAGE_FORMATS, VIDEO_FORMATS, JobSettings
from engine.video.write import codecs
from engine.video.write.containers import IMAGE_SUFFIXES, bit_rate_of

SMALLEST_SIDE = 16  # px, of the result, unless the source is that small itself
LARGEST_SIDE = 16384  # px, of the result: what the codecs' formats can hold
Part = tuple[Fraction | None, Fraction | None]
"""Begin and end of a part of a video, s; None where the video begins and ends."""
WHOLE: Part = (None, None)
_PATTERN = "{name}_{size}"  # of the names of results
_SIZES = r"(?:x\d|\d+p|\d+x\d+|copy)"  # that `_label` gives videos


def stored_target(video: VideoInfo, settings: JobSettings) -> Size:
    """Size of the result as stored: the user speaks of the picture as seen, after rotation."""
    if settings.target is not None:
        turned = video.rotation in (90, 270)
        return settings.target.transposed() if turned else settings.target
    if settings.height:
        factor = Fraction(settings.height, video.seen_size.height)
        return Size(_nearest(video.size.width * factor), _nearest(video.size.height * factor))
    return video.size if settings.model == "none" else video.size.scaled(settings.scale)


def check_size(size: Size, source: Size) -> None:
    """Refuse a result of an impossible size; `source` is that of the source.

    Raises:
        SettingsError: It is too small to show anything.
        UnsupportedMedia: It is larger than any file can hold.
    """
    if min(size.width, size.height) < min(SMALLEST_SIDE, source.width, source.height):
        raise SettingsError("result-too-small", size=size, side=SMALLEST_SIDE)
    if max(size.width, size.height) > LARGEST_SIDE:
        raise UnsupportedMedia("result-too-large", size=size, side=LARGEST_SIDE)


def default_output(
    media: MediaInfo, settings: JobSettings, container: str, pattern: str = _PATTERN
) -> Path:
    """Next to the source: `name_x2.ext`, `name_1080p.ext`, `name_1920x1080.ext`.

    Args:
        media: The source.
        settings: Settings of the job.
        container: Container of the result.
        pattern: Pattern of the name without its ending; characters that names exclude become "-".
    """
    stem = media.path.stem
    if media.kind == "sequence":
        stem, folder = stem.rstrip("0123456789").rstrip("_-. "), media.path.parent.name
        stem = (folder or stem) if media.is_folder else (stem or folder)
    if media.holds_latents:
        stem = stem.rstrip("_") or stem  # ComfyUI's names end in it
    name = _usable(pattern).replace("{size}", _label(media, settings)).replace("{name}", stem)
    if container == "sequence":
        return media.path.parent / name
    if container == "image":
        own = media.path.suffix.lower()
        suffix = IMAGE_FORMATS.get(settings.container) or (own if own in IMAGE_SUFFIXES else ".png")
        return media.path.with_name(name + suffix)
    return media.path.with_name(name + VIDEO_FORMATS[container])


def source_stem(result: str, pattern: str = _PATTERN) -> str:
    """Name of the source of a result, both without their endings; "" where none is like it.

    The inverse of `default_output`, for videos.

    Args:
        result: A name that a result could have: "film_x2", "film_1080p (2)".
        pattern: Pattern of the names of results; one that adds nothing tells nothing.
    """
    words = re.escape(_usable(pattern))
    words = words.replace(re.escape("{name}"), "(?P<name>.+)", 1)
    words = words.replace(re.escape("{name}"), "(?P=name)").replace(re.escape("{size}"), _SIZES)
    found = re.fullmatch(rf"{words}(?: \(\d+\))?", result)
    stem = found["name"] if found is not None and "name" in found.re.groupindex else ""
    return stem if stem != result else ""


def _usable(pattern: str) -> str:
    return NOT_IN_NAMES.sub("-", pattern).strip() or _PATTERN


def pictures_target(output: Path) -> tuple[Path, str]:
    """Folder and pattern of single pictures: "a/shot_%04d.png" is such pictures in "a/shot".

    A name without a pattern is the folder itself; its pictures are named as the source's.
    """
    if "%" not in output.name:
        return output, ""
    folder = output.name.partition("%")[0].rstrip("_-. ") or "pictures"
    return output.with_name(folder), output.name


def _label(media: MediaInfo, settings: JobSettings) -> str:
    if settings.target is not None:
        return str(settings.target)
    if settings.height:
        return f"{settings.height}p"
    if settings.model == "none":
        return "decoded" if media.holds_latents else "copy"
    return f"x{settings.scale}"


def _nearest(value: Fraction) -> int:
    return max(1, round(value))


def output_bytes(plan: Plan, media: MediaInfo) -> int:
    """Predicted size: new picture by codec and quality, other streams as they are or decoded."""
    picture = plan.picture
    bits = codecs.estimated_bits_per_pixel(picture) * picture.size.pixels * plan.frames
    duration = float(plan.frames / picture.frame_rate)
    known = {stream.index: stream for stream in media.streams}
    kept = sum(bit_rate_of(entry, known[entry.index]) for entry in plan.streams if entry.copied)
    return round((bits + kept * duration) / 8)


def trimmed(settings: JobSettings, video: VideoInfo) -> Part:
    """The part that is wanted.

    Raises:
        SettingsError: There is no such part.
    """
    start = parse_clock(settings.start) if settings.start else None
    stop = parse_clock(settings.stop) if settings.stop else None
    if start is not None and video.duration is not None and start >= video.duration:
        time = clock_text(video.duration)
        raise SettingsError("start-after-film", time=time, start=start, duration=video.duration)
    if stop is not None and stop <= (start or 0):
        raise SettingsError("end-before-start", start=start, stop=stop)
    return start, stop


def frames_between(media: MediaInfo, start: Fraction | None, stop: Fraction | None) -> int:
    """Frames that `FrameReader` gives of a part; an estimate where they are not evenly spaced."""
    count = media.video.frame_count
    if media.video.frame_rate is None:
        return max(1, count)
    first = _frames_before(media, start) if start is not None else 0
    end = _frames_before(media, stop) if stop is not None else count
    return max(1, min(end, count or end) - first)


def _frames_before(media: MediaInfo, seconds: Fraction) -> int:
    """Number of frames before a time; their time stamps are rounded to whole units."""
    video = media.video
    assert video.frame_rate is not None
    units = media.time_stamp(seconds) - video.start_pts - Fraction(1, 2)
    return max(0, math.ceil(units * video.time_base * video.frame_rate))
