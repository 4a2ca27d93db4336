"""Probing of images: from a file, or a numbered sequence of files, to MediaInfo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from engine.core.errors import InputError
from engine.core.file_access import reading
from engine.core.geometry import Size
from engine.protocol.media import Chroma, ColourTags, Findings, MediaInfo, Statement, VideoInfo
from engine.video.colour_tags import (
    assumed_range,
    assumed_transfer,
    chroma_location,
    hdr_of,
    primaries_of,
    tags_of,
)
from engine.video.planes import PixelLayout, has_clipped, layout_of, planar_format
from engine.video.read.images import SEQUENCE_RATE, picture_codec, read_picture, sequence_file
from engine.video.read.media_file import check_readable, is_truncated
from engine.video.read.picture_data import PictureData, read_picture_data
from engine.video.read.picture_parts import parts_beside
from engine.video.read.statements import FrameKind, changes_of
from engine.video.read.stream_info import has_alpha, hdr_metadata_of, rotation_of

MOST_LOOKS, _MOST_PIXELS = 32, 100_000_000  # images of a sequence that are looked at, and theirs
MOST_READ = 400 << 20  # bytes of them: seconds for a network
_CHROMAS: tuple[Chroma, ...] = (
    "gray",
    "410",
    "411",
    "420",
    "440",
    "422",
    "444",
    "rgb",
)  # by colour


@dataclass(frozen=True, slots=True)
class _Image:
    """One image of a sequence, with everything that it states beside its pixels."""

    video: VideoInfo
    statements: tuple[Statement, ...]
    follows_profile: bool  # its colours are those of its profile, whatever else it states


def probe_image(path: Path, codec: str) -> MediaInfo:
    """Facts about an image.

    Args:
        path: Its file.
        codec: Result of `picture_codec`.

    Raises:
        InputError: See `probe`.
    """
    image = _read(path, codec)
    return MediaInfo(
        path=path,
        kind="image",
        container="image2",
        bytes=check_readable(path),
        video=image.video,
        is_cut_short=is_truncated(path),
        statements=image.statements,
    )


def probe_sequence(pattern: str, first: int, count: int, most: int = MOST_LOOKS) -> MediaInfo:
    """Facts about numbered images: those of the first one, and what others state beside it.

    The sequence has the transparency, colour and bits of any image. Size, colours and orientation
    are those of the first, and the changes of all others are findings. A profile, EXIF and further
    statements may be those of any image, since results that are images keep those of each.

    Args:
        pattern: Pattern of the names, with its folder.
        first: Number of the first image.
        count: Number of images.
        most: Images to look at, at most.

    Raises:
        InputError: The first image cannot be read; see `probe`.
    """
    files = [sequence_file(pattern, first + index) for index in range(count)]
    one = _read(files[0], picture_codec(files[0]))
    images = [one, *_later(files, min(most, _looks(files[0], one.video.size, count)))]
    video = one.video
    for image in images[1:]:
        video = _with_pixels_of(video, image.video)
    profiles = dict.fromkeys(image.video.profile for image in images if image.video.profile)
    usual = "GRAY" if video.chroma == "gray" else "RGB"
    profile = usual if usual in profiles else next(iter(profiles), "")
    stated = {two.kind: two for image in reversed(images) for two in image.statements}
    if others := [name for name in profiles if name != profile]:
        stated["other-profiles"] = Statement(kind="other-profiles", value=", ".join(others))
    main = _kind_of(one, one.video)
    kinds = Counter(_kind_of(image, one.video) for image in images)
    changes = tuple(changes_of(main, {kind: n / len(images) for kind, n in kinds.items()}))
    return MediaInfo(
        path=files[0],
        kind="sequence",
        container="image2",
        bytes=sum(file.stat().st_size for file in files),
        video=replace(
            video,
            frame_count=count,
            duration=count / SEQUENCE_RATE,
            profile=profile,
            has_exif=any(image.video.has_exif for image in images),
        ),
        pattern=pattern,
        first_number=first,
        findings=Findings(changes=changes) if changes else None,
        statements=tuple(stated[kind] for kind in sorted(stated)),
    )


def sequences_to_compare(
    source: MediaInfo, result: MediaInfo, start: Fraction | None
) -> tuple[MediaInfo, MediaInfo]:
    """Facts about the same images of two sequences, whatever their sizes.

    Args:
        source: A sequence.
        result: The sequence made of it.
        start: Begin of the part of the source that was taken; None for its own begin.
    """
    first = source.time_stamp(start) if start is not None else 0
    count = max(1, min(result.video.frame_count, source.video.frame_count - first))
    most = min(_looks(one.path, one.video.size, count) for one in (source, result))
    old, new = (
        probe_sequence(one.pattern, one.first_number + at, count, most)
        for one, at in ((source, first), (result, 0))
    )
    return old, new


def picture_data_of(path: Path) -> PictureData:
    """Data of an image besides its pixels.

    Raises:
        InputError: The file cannot be read.
    """
    with reading(path):
        return read_picture_data(path)


def _read(path: Path, codec: str) -> _Image:
    frame = read_picture(path, codec)
    layout = layout_of(frame.format.name)
    data = picture_data_of(path)
    rotation, is_mirrored = data.turn if any(data.turn) else rotation_of(frame, codec, {})
    tags = tags_of(None, frame)
    tags = replace(tags, chroma_location=chroma_location(codec, layout.chroma, b""))
    if codec == "tiff":  # FFmpeg takes all grey ones for gamma 2.2
        tags = replace(tags, transfer="linear" if data.is_linear else "")
    if not tags.primaries:
        tags = replace(tags, primaries=primaries_of(data.chromaticities))
    if layout.is_float and tags.transfer == "linear":  # as `planes_of` reads it
        tags = replace(tags, transfer="iec61966-2-1")
    video = VideoInfo(
        index=0,
        codec=codec,
        size=Size(frame.width, frame.height),
        pixel_format=frame.format.name,
        chroma=layout.chroma,
        bit_depth=layout.bit_depth,
        has_alpha=has_alpha([frame], codec),
        frame_rate=SEQUENCE_RATE,
        time_base=1 / SEQUENCE_RATE,
        frame_count=1,
        frame_count_is_exact=True,
        duration=1 / SEQUENCE_RATE,
        sample_aspect=data.pixel_aspect,
        rotation=rotation,
        is_mirrored=is_mirrored,
        tags=tags,
        hdr=hdr_of(tags),
        hdr_metadata=data.hdr_metadata or hdr_metadata_of([frame], codec),
        profile=data.colour_space,
        has_exif=data.says_anything,
    )
    with reading(path):
        parts = parts_beside(path, codec)
    clipped = (Statement(kind="beyond"),) if layout.is_float and has_clipped(frame) else ()
    stated = (*parts, *data.statements(tags), *clipped)
    return _Image(video, stated, bool(data.profile) and not data.has_code_points)


def _looks(first: Path, size: Size, count: int) -> int:
    """Number of images to look at, as many as a second decodes.

    It is a count: a time would give another answer on each computer.
    """
    limits = _MOST_PIXELS // size.pixels, MOST_READ // check_readable(first)
    return min(MOST_LOOKS, *limits, count)


def _later(files: Sequence[Path], looks: int) -> Iterator[_Image]:
    """Images all over a sequence but its first one; those that cannot be read are left out."""
    for number in range(1, looks):
        file = files[(len(files) - 1) * number // (looks - 1)]
        with suppress(InputError):
            yield _read(file, picture_codec(file))


def _with_pixels_of(video: VideoInfo, other: VideoInfo) -> VideoInfo:
    """A sequence that has also the transparency, the colour and the bits of another image."""
    chroma = max(video.chroma, other.chroma, key=_CHROMAS.index)
    bits = max(video.bit_depth, other.bit_depth)
    if (chroma, bits) != (video.chroma, video.bit_depth):
        name, tags = other.pixel_format, video.tags
        if (chroma, bits) != (other.chroma, other.bit_depth):
            name = planar_format(PixelLayout(chroma=chroma, bit_depth=bits, has_alpha=False))
        if chroma == other.chroma:
            tags = replace(tags, matrix=other.tags.matrix, range=other.tags.range)
        video = replace(video, pixel_format=name, chroma=chroma, bit_depth=bits, tags=tags)
    return replace(video, has_alpha=video.has_alpha or other.has_alpha)


def _kind_of(image: _Image, first: VideoInfo) -> FrameKind:
    """The kind of an image, of which all that the first one lacks is converted or kept.

    Colours that nothing states are those that are assumed of the image. Where a later image
    follows a profile, its primaries and transfer are empty: it keeps the profile, or that is named.
    """
    video, stated = image.video, {one.kind: one.value for one in image.statements}
    tags = ColourTags()
    if video is first or not image.follows_profile:
        gamma = f"gamma {stated['gamma']}" if "gamma" in stated else ""
        tags = replace(
            tags,
            primaries=stated.get("primaries") or video.tags.primaries or "bt709",
            transfer=gamma or video.tags.transfer or assumed_transfer(video),
        )
    if video.chroma == first.chroma:
        own_range = video.tags.range or assumed_range(video)
        tags = replace(tags, matrix=video.tags.matrix, range=own_range)
    return FrameKind(
        size=video.size,
        pixel_format=first.pixel_format,
        sample_aspect=video.sample_aspect,
        tags=tags,
        turn=(video.rotation, video.is_mirrored),
    )
