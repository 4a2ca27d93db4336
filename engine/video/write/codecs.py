"""Choice of container, codec, encoder, chroma, depth and colour tags of a result.

Nothing here imports av; only `encoder_works` does, when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from engine.core.errors import ContainerMismatch, EncoderMissing, OutOfMemory, SettingsError
from engine.core.geometry import Size
from engine.protocol.media import Chroma, ColourTags, MediaInfo, VideoInfo, subsampling
from engine.protocol.plan import Notice, PicturePlan
from engine.settings.schema import JobSettings
from engine.video.colour_tags import assumed_matrix
from engine.video.write.containers import (
    CONTAINERS,
    IMAGE_CODECS,
    IMAGE_SUFFIXES,
    PICTURES,
    can_write_rotation,
    container_of_name,
    is_of_file,
    left_out,
    output_suffix,
    plan_streams,
    source_family,
    takes_picture,
)
from engine.video.write.encoders import (
    ENCODERS,
    ON_GPU,
    ON_PROCESSOR,
    EncoderSpec,
    Layout,
    Rate,
    bits_per_pixel,
    encoder_options,
    with_hdr,
    writes_hdr,
)
from engine.video.write.picture_data import HOLDING_DATA, is_true_of

_FLAT_ANIMATIONS = ("gif", "webp", "apng")  # transparency there is rarely meant for a video
_HDR = {"pq": "PQ (HDR10)", "hlg": "HLG"}
_WIDE = {
    "bt2020": "BT.2020",
    "smpte431": "DCI-P3",
    "smpte432": "Display P3",
    "smpte428": "XYZ",
}
STATED_TAGS = {"png": ("primaries", "transfer"), "exr": ("primaries",)}  # colour tags of images
_MOST_THREADS = 16  # more cost memory and bring little
_INTERCHANGE_BITS = 10  # what players and televisions decode; 12 bits only on request
_NEAREST: dict[Chroma, tuple[Chroma, ...]] = {
    "420": ("420", "422", "444"),
    "422": ("422", "444", "420"),
    "440": ("440", "444", "420"),
    "411": ("411", "422", "420"),
    "410": ("410", "420", "422"),
    "gray": ("gray", "420", "422", "rgb"),
    "444": ("444", "rgb", "422", "420"),
    "rgb": ("rgb", "444", "422", "420"),
}


def choose_container(media: MediaInfo, settings: JobSettings, output: Path | None) -> str:
    """Container of the result: requested by setting or name, else the source's, else MKV.

    Pictures stay pictures and sequences stay sequences unless a video is requested.

    Returns:
        "mp4", "mkv", "mov", "webm", "image" or "sequence".

    Raises:
        ContainerMismatch: The name means a container that is never written, another one than the
            setting, or one that cannot hold the codec of the video or of converted sound.
    """
    images = settings.container if settings.container in IMAGE_CODECS else ""
    requested = "" if settings.container == "auto" else settings.container
    if images:
        requested = "image" if media.kind == "image" else "sequence"
    named = _named_container(media, output, bool(images)) if output is not None else ""
    if output is not None and named and requested:
        _check_name(output, named, requested, images)
    if named or requested:
        container = named or requested
    elif media.kind != "video" and settings.codec == "auto":
        return media.kind
    else:
        container = _container_for(media, settings)
    _check_codec(container, settings.codec)
    _check_sound(media, container, settings.sound)
    return container


def _named_container(media: MediaInfo, output: Path, has_images: bool) -> str:
    has_images |= media.kind == "sequence"
    if has_images and media.kind != "image" and not is_of_file(output):
        return "sequence"  # a folder
    named = container_of_name(output)
    if named == "image" and media.kind == "sequence":
        raise ContainerMismatch("one-picture-of-sequence", name=output.name)
    if named == "image" and media.kind == "video":
        raise ContainerMismatch("one-picture-of-film", name=output.name)
    return named


def _check_name(output: Path, named: str, requested: str, images: str) -> None:
    """Refuse a name whose suffix is that of another format than the requested one."""
    codec = IMAGE_SUFFIXES.get(output.suffix.lower(), images)
    if named != requested or (images and codec != images):
        title = ON_PROCESSOR[images].title if images else CONTAINERS[requested].title
        suffix = output_suffix(requested, images)
        raise ContainerMismatch("name-of-another", name=output.name, title=title, suffix=suffix)


def _check_codec(container: str, codec: str) -> None:
    if codec == "auto" or takes_picture(container, codec):
        return
    title = ON_PROCESSOR[codec].title
    if container in PICTURES:
        raise ContainerMismatch("codec-in-picture", title=title, container=container, codec=codec)
    raise ContainerMismatch(
        "codec-in-container",
        kind=CONTAINERS[container].title,
        title=title,
        container=container,
        codec=codec,
    )


def _check_sound(media: MediaInfo, container: str, codec: str) -> None:
    into = CONTAINERS.get(container)
    is_made = any(plan.converted == codec for plan in plan_streams(media, container, codec))
    if into is None or not is_made or codec in into.audio:
        return
    better = next(one.title for one in CONTAINERS.values() if codec in one.audio)
    raise ContainerMismatch("sound-in-container", kind=into.title, codec=codec, better=better)


def _container_for(media: MediaInfo, settings: JobSettings) -> str:
    """The source's own container, else MKV, else another: the first that changes least."""
    family = source_family(media) or "mkv"
    codec = settings.codec if settings.codec != "auto" else _auto_codec(media, settings, family)
    able = [c for c in (family, "mkv", "mov", "mp4") if takes_picture(c, codec)]

    def losses(name: str) -> tuple[int, int]:
        plans = plan_streams(media, name, settings.sound)
        return len(left_out(plans)), sum(bool(plan.converted) for plan in plans)

    return min(able, key=losses)


def _auto_codec(media: MediaInfo, settings: JobSettings, container: str) -> str:
    video = media.video
    if video.has_alpha and video.codec not in _FLAT_ANIMATIONS:
        if container == "mov":
            return "prores"
        if container == "mkv":
            return "ffv1"
        if container == "webm":
            return "vp9"
    has_more_bits = (settings.bit_depth or video.bit_depth) > 8
    small, large = ("vp9", "av1") if container == "webm" else ("h264", "hevc")
    return large if has_more_bits or video.hdr else small


def plan_picture(
    media: MediaInfo,
    settings: JobSettings,
    size: Size,
    container: str,
    *,
    output: Path | None = None,
) -> PicturePlan:
    """Decide how the new picture is written.

    The result's `size` is the nearest one that can be stored (`allowed_size`); its `rotation` is 0
    where the file cannot keep it, see `can_write_rotation`.

    Args:
        media: The source.
        settings: Settings of the job.
        size: Size of the result as stored, px.
        container: Result of `choose_container`.
        output: Name of the result; distinguishes PNG from TIFF.

    Raises:
        EncoderMissing: This machine cannot encode the codec, or not at this size.
        ContainerMismatch: The container cannot hold it.
        SettingsError: Depth or chroma that the codec does not have.
    """
    video = media.video
    if container in PICTURES:
        codec = _picture_codec(video, settings, output)
    else:
        _check_codec(container, settings.codec)
        codec = settings.codec
        if codec == "auto":
            codec = _auto_codec(media, settings, container)
    if codec == "exr" and video.hdr:
        raise ContainerMismatch("hdr-in-exr", standard=_HDR[video.hdr])
    least = 10 if codec == "dpx" or (codec == "hevc" and settings.codec == "auto") else 8
    chroma = _choose_chroma(ON_PROCESSOR[codec], video, settings)
    layout = _choose_layout(ON_PROCESSOR[codec], video, settings, chroma, least)
    chroma, depth, alpha = layout
    size = allowed_size(size, chroma, codec)
    encoder = _choose_encoder(codec, settings, size, layout)
    keeps_rotation = can_write_rotation(container)
    is_turned = video.rotation in (90, 270) and not keeps_rotation  # the pixels are
    metadata = video.hdr_metadata if writes_hdr(encoder.name, video.hdr_metadata) else None
    options = encoder_options(
        encoder,
        rate=_rate(encoder, settings),
        speed=settings.speed,
        layout=layout,
        size=size,
        source_bits=video.bit_depth,
    )
    return PicturePlan(
        size=size,
        codec=codec,
        encoder=encoder.name,
        pixel_format=encoder.formats[layout],
        chroma=chroma,
        bit_depth=depth,
        has_alpha=alpha,
        tags=_result_tags(video, chroma, codec),
        hdr_metadata=metadata,
        sample_aspect=1 / video.sample_aspect if is_turned else video.sample_aspect,
        rotation=video.rotation if keeps_rotation else 0,
        is_mirrored=video.is_mirrored and keeps_rotation,
        frame_rate=video.frame_rate or Fraction(25),
        time_base=video.time_base,
        options=with_hdr(options, encoder.name, metadata),
        threads=min(os.cpu_count() or 1, _MOST_THREADS),
    )


def _picture_codec(video: VideoInfo, settings: JobSettings, output: Path | None) -> str:
    if settings.container in IMAGE_CODECS:
        return settings.container
    if output is not None and output.suffix.lower() in IMAGE_SUFFIXES:
        return IMAGE_SUFFIXES[output.suffix.lower()]
    return video.codec if video.codec in IMAGE_CODECS else "png"


def _rate(encoder: EncoderSpec, settings: JobSettings) -> Rate:
    """Quality or bit rate of a result.

    Raises:
        SettingsError: A bit rate is asked for, and the codec has none.
    """
    if settings.bit_rate and not encoder.has_rate:
        raise SettingsError("codec-bit-rate", title=encoder.title, setting="bit_rate")
    return Rate(settings.crf, constant=round(settings.bit_rate * 1_000_000))


def allowed_size(size: Size, chroma: Chroma, codec: str = "h264") -> Size:
    """The nearest size that a codec stores: whole chroma samples, halves rounded up."""
    if not ON_PROCESSOR[codec].needs_whole_chroma:
        return size
    across, down = subsampling(chroma)
    return Size(_multiple(size.width, across), _multiple(size.height, down))


def _multiple(value: int, step: int) -> int:
    return max(step, (value + step // 2) // step * step)


def _choose_chroma(encoder: EncoderSpec, video: VideoInfo, settings: JobSettings) -> Chroma:
    """Chroma of the result: as requested, else 4:2:0 for players, else nearest to the source.

    Raises:
        SettingsError: The codec does not have it.
    """
    codec = encoder.codec
    known = encoder.chromas()
    if settings.chroma != "auto" and codec not in IMAGE_CODECS:
        for chroma in known:
            if chroma == settings.chroma:
                return chroma
        raise SettingsError(
            "codec-chroma",
            title=encoder.title,
            chroma=settings.chroma,
            known=known,
            setting="chroma",
        )
    if codec == "prores" and video.has_alpha:
        return "444"
    if codec in ("h264", "hevc", "av1", "vp9"):
        return "420"
    return next((c for c in _NEAREST[video.chroma] if c in known), known[0])


def _choose_layout(
    encoder: EncoderSpec, video: VideoInfo, settings: JobSettings, chroma: Chroma, least: int
) -> Layout:
    """Depth and alpha of the result: the source's where the codec has them.

    Args:
        encoder: Any of the codec.
        video: The source.
        settings: Settings of the job.
        chroma: Result of `_choose_chroma`; only FFV1 may leave it, to keep alpha.
        least: Fewest bits, unless the settings give them.

    Raises:
        SettingsError: The codec does not have the requested depth.
    """
    depths = encoder.depths(chroma)
    if settings.bit_depth and encoder.codec not in IMAGE_CODECS:
        if settings.bit_depth not in depths:
            raise SettingsError(
                "codec-depth",
                title=encoder.title,
                bits=settings.bit_depth,
                known=depths,
                setting="bit_depth",
            )
        bits = settings.bit_depth
    else:
        bits = max(least, settings.bit_depth or video.bit_depth)
        if encoder.is_lossy:
            bits = min(bits, _INTERCHANGE_BITS)
    if video.has_alpha:
        with_alpha = [d for d in encoder.depths(chroma, alpha=True) if d >= bits]
        if with_alpha:
            return chroma, with_alpha[0], True
        if encoder.codec == "ffv1":  # the few layouts without alpha: 4:4:4 has all
            return "444", 16 if bits > 12 else max(bits, 8), True
        if fewer := encoder.depths(chroma, alpha=True):
            return chroma, fewer[-1], True
    return chroma, next((d for d in depths if d >= bits), depths[-1]), False


def _choose_encoder(codec: str, settings: JobSettings, size: Size, layout: Layout) -> EncoderSpec:
    on_gpu, on_processor = ON_GPU.get(codec), ON_PROCESSOR[codec]
    if settings.encoder != "cpu" and on_gpu is not None:
        suits = layout in on_gpu.formats and on_gpu.fits(size)
        if suits and encoder_works(on_gpu.name):
            return on_gpu
    about = {"title": on_processor.title, "codec": codec}
    if settings.encoder == "nvenc" and codec not in IMAGE_CODECS:
        raise EncoderMissing("none-on-gpu", size=size, bits=layout[1], **about)
    if not on_processor.fits(size):
        smallest, largest = on_processor.smallest, on_processor.largest
        raise EncoderMissing("size", size=size, smallest=smallest, largest=largest, **about)
    if not encoder_works(on_processor.name):
        raise EncoderMissing("none-at-all", **about)
    return on_processor


def _result_tags(video: VideoInfo, chroma: Chroma, codec: str) -> ColourTags:
    """The source's tags; matrix and range always, since players guess them by the new size."""
    tags = video.tags
    if chroma == "rgb":
        return replace(tags, matrix="rgb", range="pc", chroma_location="")
    is_rgb_source = video.chroma == "rgb" or tags.matrix in ("rgb", "gbr")
    location = tags.chroma_location if video.chroma == chroma else ""
    if chroma == "gray":
        return replace(tags, range=tags.range or "pc", chroma_location="")
    if is_rgb_source or video.chroma == "gray":
        matrix = tags.matrix if tags.matrix not in ("", "rgb", "gbr") else "bt709"
        return replace(tags, matrix=matrix, range="tv", chroma_location=location)
    own_range = tags.range or ("pc" if video.pixel_format.startswith("yuvj") else "tv")
    return replace(
        tags,
        matrix=tags.matrix or assumed_matrix(video.size),
        range="tv" if codec == "prores" else own_range,
        chroma_location=location,
    )


def picture_notices(media: MediaInfo, picture: PicturePlan) -> Iterator[Notice]:
    """Notices about the video codec that the user should read before the start.

    Of the codes "alpha-left-out", "hdr-tags-only", "hdr-unstated", "gamut-unstated",
    "light-unstated" and "profile-left-out" (warnings), "hdr-kept", "exif-left-out",
    "light-is-linear", "bits-reduced" and "chroma-reduced" (info).
    """
    video = media.video
    is_picture = picture.codec in IMAGE_CODECS
    stated = STATED_TAGS.get(picture.codec, ()) if is_picture else ("primaries", "transfer")
    keeps_profile = video.profile and is_true_of(video.profile, picture.codec, picture.chroma)
    if video.hdr and "transfer" not in stated:
        yield Notice(
            code="hdr-unstated",
            severity="warning",
            params={"standard": _HDR[video.hdr], "title": ON_PROCESSOR[picture.codec].title},
        )
    elif video.hdr:
        standard = _HDR[video.hdr]
        is_lost = video.hdr_metadata is not None and picture.hdr_metadata is None
        yield Notice(
            code="hdr-tags-only" if is_lost else "hdr-kept",
            severity="warning" if is_lost else "info",
            params={"hdr": video.hdr, "standard": standard},
        )
    elif video.tags.primaries in _WIDE and "primaries" not in stated and not keeps_profile:
        yield Notice(
            code="gamut-unstated",
            severity="warning",
            params={
                "standard": _WIDE[video.tags.primaries],
                "title": ON_PROCESSOR[picture.codec].title,
            },
        )
    is_stated = "transfer" in stated or video.codec == picture.codec == "dpx"  # it keeps its codes
    if video.tags.transfer == "linear" and not (is_stated or keeps_profile):
        title = ON_PROCESSOR[picture.codec].title
        yield Notice(code="light-unstated", severity="warning", params={"title": title})
    if video.has_alpha and not picture.has_alpha:
        yield Notice(code="alpha-left-out", severity="warning")
    if video.has_unread_alpha:
        yield Notice(code="alpha-left-out", case="unread", severity="warning")
    holds_data = picture.codec in HOLDING_DATA
    if video.profile and not keeps_profile:
        case = "other-colours" if holds_data else ""
        yield Notice(
            code="profile-left-out", case=case, severity="warning", params={"kind": video.profile}
        )
    if video.has_exif and not holds_data:
        yield Notice(code="exif-left-out", severity="info")
    if picture.codec == "exr" and video.codec != "exr":
        yield Notice(code="light-is-linear", severity="info")
    if picture.bit_depth < video.bit_depth:
        yield Notice(
            code="bits-reduced",
            severity="info",
            params={"source": str(video.bit_depth), "result": str(picture.bit_depth)},
        )
    if _loses_chroma(video, picture):
        names = {"source": _chroma_name(video.chroma), "result": _chroma_name(picture.chroma)}
        yield Notice(code="chroma-reduced", severity="info", params=names)


def _loses_chroma(video: VideoInfo, picture: PicturePlan) -> bool:
    """Whether colour differences get fewer samples because of the chroma, not of the size."""
    if video.chroma == "gray":
        return False
    (across, down), (x, y) = subsampling(video.chroma), subsampling(picture.chroma)
    before, after = video.size.pixels / (across * down), picture.size.pixels / (x * y)
    return picture.chroma == "gray" or (x * y > across * down and after < before)


def _chroma_name(chroma: Chroma) -> str:
    """Usual name: "4:2:0" or "RGB"."""
    return ":".join(chroma) if chroma.isdecimal() else chroma.upper()


def estimated_bits_per_pixel(picture: PicturePlan) -> float:
    """Rough size of the result, bits a pixel and frame; a factor of two off is usual."""
    constant = int(picture.options.get("b", "0"))
    if constant:
        return float(constant / picture.frame_rate / picture.size.pixels)
    crf = int(picture.options.get("crf") or picture.options.get("cq") or "16")
    crf = round(crf / ENCODERS[picture.encoder].crf_scale)
    bits = bits_per_pixel(picture.codec, crf, picture.bit_depth, picture.chroma)
    return bits * 2.5 if picture.options.get("format") == "float" else bits  # noise, mostly


def encoder_works(name: str) -> bool:
    """Whether this machine's FFmpeg really opens an encoder; tried once a program run.

    A GPU without memory for one more is passed over this time.

    Raises:
        OutOfMemory: There is no main memory to try it.
    """
    try:
        return _works(name)
    except OutOfMemory:
        if all(name != encoder.name for encoder in ON_GPU.values()):
            raise
    return False


@cache
def _works(name: str) -> bool:
    from engine.video.write.encoders import opens

    return opens(name)
