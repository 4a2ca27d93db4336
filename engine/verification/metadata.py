"""Checks of the statements of both files: size, colour tags, chapters, titles, side data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from engine.core.file_access import reading
from engine.core.messages import Message, alternatives, clauses, message
from engine.planner.target import WHOLE, Part
from engine.protocol.media import (
    ChapterInfo,
    ColourTags,
    HdrMetadata,
    MediaInfo,
    Statement,
    StreamInfo,
    VideoInfo,
)
from engine.protocol.plan import PicturePlan, Plan
from engine.protocol.report import Check
from engine.verification.frames import FrameComparison
from engine.video.colour_tags import assumed_matrix, assumed_range
from engine.video.read.picture_data import read_picture_data
from engine.video.read.statements import with_statements
from engine.video.write.codecs import STATED_TAGS
from engine.video.write.containers import CONTAINERS, Container, source_family
from engine.video.write.picture_data import HOLDING_DATA, is_true_of
from engine.video.write.statements import StatedResult, name_of

_ASPECT = 0.0005  # rounding of the shape of pixels, in images
_SHAPE = 0.01  # tolerance of the aspect ratio as seen
_CHAPTER_S = 0.05  # tolerance of the start of a chapter
_SLIVER_S = Fraction(1, 500)  # what is left of a chapter at the edge of a part
_HDR_ROUNDING = Fraction(1, 5000)
_OWN_KEYS = {  # a container's statements about itself
    *("encoder", "encoding_tool", "encoded_by", "duration", "timecode"),
    *("major_brand", "minor_version", "compatible_brands", "handler_name", "vendor_id"),
}
_MP4_KEYS = {  # entries that MP4 and MOV certainly have a place for
    *("title", "artist", "album", "album_artist", "composer", "genre", "comment", "description"),
    *("synopsis", "copyright", "show", "lyrics", "grouping", "creation_time", "location"),
}
_SD_GUESSES = frozenset({"smpte170m", "bt470bg", "bt709"})
_HD_GUESSES = frozenset({"bt709"})
_NO_MATRIX = ("rgb", "gray")  # a result with a matrix needs other tags
_TAGS = ("matrix", "range", "primaries", "transfer")


def size_check(source: VideoInfo, output: MediaInfo, plan: PicturePlan | None) -> Check:
    """Size, sample aspect ratio, rotation and alpha: as planned, else as the source is seen."""
    result = output.video
    is_picture = output.kind != "video" and result.codec in HOLDING_DATA
    if is_picture and (plan or source).sample_aspect != 1:
        with reading(output.path):  # stated by its resolution, which is no shape in other images
            data = read_picture_data(output.path)
        result = replace(result, sample_aspect=data.aspect_of_video)
    fault = _planned_fault(result, plan) if plan is not None else _shape_fault(source, result)
    if (plan or source).has_alpha and not result.has_alpha:
        fault = fault or message("check.size.alpha")
    kept = message("check.size.kept", result=_seen(result), source=_seen(source))
    return Check(
        code="size",
        passed=fault is None,
        message=fault or kept,
        source=str(source.size),
        output=str(result.size),
    )


def _seen(video: VideoInfo) -> str | Message:
    if video.sample_aspect == 1:
        return str(video.seen_size)
    return message("check.size.with-aspect", size=video.seen_size, aspect=video.sample_aspect)


def _planned_fault(result: VideoInfo, plan: PicturePlan) -> Message | None:
    if result.size != plan.size:
        return message("check.size.other", result=result.size, planned=plan.size)
    if abs(result.sample_aspect / plan.sample_aspect - 1) > _ASPECT:
        aspect = plan.sample_aspect
        return message("check.size.aspect", result=result.sample_aspect, planned=aspect)
    if (result.rotation, result.is_mirrored) != (plan.rotation, plan.is_mirrored):
        return message("check.size.rotation", result=result.rotation, planned=plan.rotation)
    return None


def _shape_fault(source: VideoInfo, result: VideoInfo) -> Message | None:
    """Both as seen: stored sizes may differ where one is rotated by its metadata."""
    before, after = _seen_shape(source), _seen_shape(result)
    rounding = 1 / min(result.size.width, result.size.height)
    if abs(after / before - 1) > max(_SHAPE, float(rounding)):
        ratios = {"result": f"{float(after):.3f}", "source": f"{float(before):.3f}"}
        return message("check.size.shape", **ratios)
    return None


def _seen_shape(video: VideoInfo) -> Fraction:
    shape = video.size.width * video.sample_aspect / video.size.height
    return 1 / shape if video.rotation in (90, 270) else shape


def tags_check(source: VideoInfo, result: MediaInfo, plan: PicturePlan | None) -> Check:
    """Matrix, range, primaries and transfer: the source's, or where it has none a fair guess.

    A picture file cannot carry them all: `STATED_TAGS` are compared, unless it has a profile.
    """
    names: tuple[str, ...] = _TAGS
    is_picture = result.kind != "video"
    if is_picture:
        able = () if result.video.profile else STATED_TAGS.get(result.video.codec, ())
        names = tuple(name for name in able if getattr(source.tags, name))
        if not names:
            return Check(code="tags", passed=True, message=message("check.tags.pictures"))
    faults = []
    for name in names:
        was, now = getattr(source.tags, name), getattr(result.video.tags, name)
        allowed = _allowed(name, source, result.video, plan)
        if now not in allowed:
            expected = alternatives([_value(value) for value in sorted(allowed)])
            fault = {"result": _value(now), "expected": expected, "source": _value(was)}
            faults.append(message("check.tags.fault", tag=name, **fault))
    wanted = None if is_picture else (plan or source).hdr_metadata
    if not _is_kept_hdr(wanted, result.video.hdr_metadata):
        faults.append(message("check.tags.hdr"))
    values = {"source": _tags_text(source.tags), "output": _tags_text(result.video.tags)}
    return Check.of_faults("tags", "wrong", faults, message("check.tags.kept"), **values)


def _is_kept_hdr(wanted: HdrMetadata | None, found: HdrMetadata | None) -> bool:
    """Whether a video states about its HDR what it should; codecs round it, AV1 to 1/16384."""
    if wanted is None:
        return True
    if found is None or wanted.light_level != found.light_level:
        return False
    old, new = (each.primaries + each.luminance for each in (wanted, found))
    return len(old) == len(new) and all(
        abs(a - b) <= max(_HDR_ROUNDING, _HDR_ROUNDING * a) for a, b in zip(old, new, strict=True)
    )


def _value(tag: str) -> str | Message:
    return tag or message("check.tags.untagged")


def _allowed(name: str, source: VideoInfo, result: VideoInfo, plan: PicturePlan | None) -> set[str]:
    """Values that a colour tag of the result may have."""
    was = getattr(source.tags, name)
    planned = getattr(plan.tags, name) if plan is not None else None
    is_converted = (source.chroma in _NO_MATRIX) != (result.chroma in _NO_MATRIX)
    is_alone = name == "transfer" and not source.tags.primaries and result.codec == "png"
    if is_alone and was == "iec61966-2-1":
        return {was, "bt470m"}  # PNG states it as a gamma beside primaries without a name
    if was and not (is_converted and name in ("matrix", "range")):
        return {was}
    if planned:
        return {planned}
    if name == "range":
        return {"", "tv", "pc"} if is_converted else {"", assumed_range(source)}
    if name == "matrix" and result.chroma == "rgb":
        return {"", "rgb"}
    is_small = assumed_matrix(source.size) == "smpte170m"
    return {"", *(_SD_GUESSES if is_small else _HD_GUESSES)}


def _tags_text(tags: ColourTags) -> str:
    return ", ".join(getattr(tags, name) or "-" for name in _TAGS)


def chapters_check(
    source: MediaInfo, result: MediaInfo, shift: Fraction, part: Part, end: Fraction
) -> Check:
    """Number, titles and starts of the chapters; a trimmed job keeps those its frames touch.

    Args:
        source: Facts about the source.
        result: Facts about the result.
        shift: Delay of the first frame on the result's clock, s.
        part: Part of the source that was taken.
        end: End of the last frame on the result's clock, s.
    """
    if result.kind != "video":
        return Check(code="chapters", passed=True, message=message("check.chapters.pictures"))
    old, new = source.chapters, result.chapters
    if part != WHOLE:
        old, new = _touched(old, shift, part, end), _touched(new, Fraction(0), part, end)
    fault = None
    if len(old) != len(new):
        fault = message("check.chapters.number", expected=len(old), found=len(new))
    stretches = "mov" in result.container  # FFmpeg's MP4 and MOV let the first begin at 0
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        is_stretched = stretches and number == 1 and after.start == 0
        expected = Fraction(0) if is_stretched else max(before.start + shift, Fraction(0))
        fault = fault or _chapter_fault(number, before, after, expected)
    return Check(
        code="chapters",
        passed=fault is None,
        message=fault or message("check.chapters.kept", count=len(new)),
        source=str(len(old)),
        output=str(len(new)),
    )


def _touched(
    chapters: tuple[ChapterInfo, ...], shift: Fraction, part: Part, end: Fraction
) -> tuple[ChapterInfo, ...]:
    """Chapters of a part; slivers at its edges may be there or not, as containers round times."""
    start, stop = part

    def is_touched(chapter: ChapterInfo) -> bool:
        first, last = chapter.start + shift, chapter.end + shift
        is_begun = start is None or last > _SLIVER_S or first > 0
        return is_begun and (stop is None or first < end - _SLIVER_S)

    return tuple(filter(is_touched, chapters))


def _chapter_fault(
    number: int, before: ChapterInfo, after: ChapterInfo, expected: Fraction
) -> Message | None:
    if before.title and before.title != after.title:
        titles = {"result": after.title, "source": before.title}
        return message("check.chapters.renamed", number=number, **titles)
    off = after.start - expected
    seconds = f"{abs(float(off)):.3f}"
    if off > _CHAPTER_S:
        return message("check.chapters.late", number=number, seconds=seconds)
    if off < -_CHAPTER_S:
        return message("check.chapters.early", number=number, seconds=seconds)
    return None


def metadata_check(
    source: MediaInfo, result: MediaInfo, pairs: tuple[tuple[StreamInfo, StreamInfo], ...]
) -> Check:
    """Title, artist and so on, and the tracks' languages, as far as the container keeps them.

    Of pictures their colour profile, where it is true of the result's colours, and EXIF.
    """
    if result.kind != "video":
        return _picture_check(source.video, result.video)
    is_mkv = "matroska" in result.container
    new, old = _entries(result.metadata), _entries(source.metadata)
    faults, without_place = [], []
    for key, value in old.items():
        if value and key not in new:
            without_place += [] if is_mkv or key in _MP4_KEYS else [key]
            faults += [message("check.metadata.lost", key=key)] if key not in without_place else []
        elif value and _meant(key, new[key]) != _meant(key, value):
            values = {"result": new[key], "source": value}
            faults.append(message("check.metadata.changed", key=key, **values))
    for before, after in ((_film_of(source), _film_of(result)), *pairs):
        into = CONTAINERS[source_family(result) or "mkv"]
        faults += [*_track_faults(before, after, into), *_mark_faults(before, after, into)]
    found = message("check.metadata.kept", count=len(old) - len(without_place))
    if without_place:
        keys = ", ".join(without_place)
        found = message("check.metadata.without-place", kept=found, keys=keys)
    return Check.of_faults("metadata", "different", faults, found)


def _entries(metadata: Mapping[str, str]) -> dict[str, str]:
    """Entries that say something about the video: keys as all containers write them.

    MKV has no spaces in keys; MP4 and MOV repeat entries with a language ("location-eng").
    """
    found = {key.lower().replace(" ", "_"): value for key, value in metadata.items()}
    repeats = {key for key in found if key[-4:-3] == "-" and key[:-4] in found}
    own = repeats | _OWN_KEYS
    return {key: value for key, value in found.items() if key not in own}


def _meant(key: str, value: str) -> object:
    """A value whatever the precision of its container: places of 1e-4 degrees, whole seconds."""
    if key == "location":
        return [round(float(number), 4) for number in re.findall(r"[+-]\d+(?:\.\d+)?", value)]
    return value[: len("2026-01-02T03:04:05")] if key == "creation_time" else value


def _picture_check(source: VideoInfo, result: VideoInfo) -> Check:
    is_true = is_true_of(source.profile, result.codec, result.chroma)
    wanted = source.profile if is_true else ""
    lost = ["ICC"] if result.profile != wanted else []
    has_place = result.codec in HOLDING_DATA
    lost += ["EXIF"] if has_place and source.has_exif and not result.has_exif else []
    faults = [message("check.metadata.lost", key=key) for key in lost]
    return Check.of_faults("metadata", "different", faults, message("check.metadata.pictures"))


def _film_of(media: MediaInfo) -> StreamInfo:
    """The video's track, with its language and title."""
    film = media.video
    return StreamInfo(
        index=film.index,
        kind="video",
        codec=film.codec,
        language=film.language,
        title=film.title,
        marks=film.marks,
    )


def _mark_faults(before: StreamInfo, after: StreamInfo, into: Container) -> list[Message]:
    """Dispositions that are lost though the container has them; one video is the default anyway."""
    lost = set(before.marks) - set(after.marks)
    lost -= {"default"} if before.kind == "video" else set()
    kind = message("stream.film" if before.kind == "video" else f"stream.{before.kind}")
    return [
        message("check.metadata.mark", kind=kind, index=before.index, mark=mark)
        for mark in sorted(lost)
        if into.states_mark(mark, before.kind)
    ]


def _track_faults(before: StreamInfo, after: StreamInfo, into: Container) -> list[Message]:
    faults = []
    is_film = before.kind == "video"
    kind = message("stream.film" if is_film else f"stream.{before.kind}")
    track = {"kind": kind, "index": before.index}
    was, now = (s.language if s.language != "und" else "" for s in (before, after))
    if was and now != was and into.states_language(was):
        languages = {"result": now or message("check.metadata.no-language"), "source": was}
        faults.append(message("check.metadata.language", **track, **languages))
    if before.title and after.title != before.title:
        titles = {"result": after.title, "source": before.title}
        faults.append(message("check.metadata.renamed", **track, **titles))
    return faults


def statements_check(
    source: MediaInfo,
    result: MediaInfo,
    plan: Plan | None,
    frames: FrameComparison,
    *,
    is_from_start: bool = True,
) -> Check:
    """Compare the statements of both files, those of all frames included.

    What the result lacks is a fault unless its container or codec has no place for it, or the part
    that was taken makes it untrue; the plan is asked for no more than that.

    Args:
        source: Facts about the source.
        result: Facts about the result.
        plan: Plan of the job, if known.
        frames: Frames of both files, decoded to their ends.
        is_from_start: The first frame of the source was taken.
    """
    stated = with_statements(source, dict.fromkeys(frames.source.stated, "")).statements
    found_in = with_statements(result, dict.fromkeys(frames.result.stated, "")).statements
    has = {one.kind: one.value for one in found_in}
    place = (
        StatedResult.of_plan(plan)
        if plan is not None
        else replace(
            StatedResult.of_file(result),
            is_from_start=is_from_start,
            is_square=source.video.sample_aspect == 1,
        )
    )
    faults, explained = list[Message](), list[Statement]()
    for one in stated:
        if one.kind in has and has[one.kind] == one.value and _are_equal(one.kind, frames):
            continue
        if place.keeps(one):
            code = "changed" if one.kind in has else "lost"
            faults.append(message(f"check.statements.{code}", what=name_of(one)))
        else:
            explained.append(one)
    kept = len(stated) - len(faults) - len(explained)
    found = message("check.statements.kept", count=kept)
    if explained:
        names = clauses([name_of(one) for one in explained])
        found = message("check.statements.explained", kept=found, count=len(explained), what=names)
    values = {"source": ", ".join(one.kind for one in stated), "output": ", ".join(has)}
    return Check.of_faults("statements", "different", faults, found, **values)


def _are_equal(kind: str, frames: FrameComparison) -> bool:
    """Whether the frames of both files state the same, where every frame has its own."""
    return frames.source.messages(kind) == frames.result.messages(kind)
