"""Choice of the picture's codec: encoder, depth, chroma, tags and options.

Nothing here imports av; only `encoder_works` does, when it is called.
"""

from __future__ import annotations

import os
from fractions import Fraction
from functools import cache
from pathlib import Path

from engine.core.errors import ContainerMismatch, EncoderMissing
from engine.core.geometry import Size
from engine.protocol.media import Chroma, MediaInfo, VideoInfo
from engine.protocol.plan import Notice, PicturePlan
from engine.settings.schema import JobSettings
from engine.video.write.containers import (
    CONTAINERS,
    IMAGE_SUFFIXES,
    PICTURES,
    can_write_rotation,
    container_of_name,
    left_out,
    output_suffix,
    plan_streams,
    source_family,
    stream_notices,
    takes_picture,
)
from engine.video.write.encoders import (
    ON_CARD,
    ON_PROCESSOR,
    SVT_CRF,
    Encoder,
    bits_per_pixel,
    encoder_options,
)
from engine.video.write.picture_format import (
    allowed_size,
    assumed_matrix,
    choose_chroma,
    choose_layout,
    result_tags,
)

__all__ = [
    "allowed_size",
    "assumed_matrix",
    "can_write_rotation",
    "choose_container",
    "encoder_works",
    "estimated_bits_per_pixel",
    "output_suffix",
    "picture_notices",
    "plan_picture",
    "plan_streams",
    "stream_notices",
]

_FLAT_ANIMATIONS = ("gif", "webp", "apng")  # transparency there is rarely meant for a film
_MOST_THREADS = 16  # more cost memory and bring little


def choose_container(media: MediaInfo, settings: JobSettings, output: Path | None) -> str:
    """Kind of file of the result: asked for by setting or name, else the source's, else MKV.

    Pictures stay pictures and sequences stay sequences unless a film is asked for.

    Returns:
        "mp4", "mkv", "mov", "image" or "sequence".

    Raises:
        ContainerMismatch: The name asks for something that is never written, for another kind
            than the setting, or for one that cannot hold the wanted codec.
    """
    named = _named_container(media, output)
    asked = "" if settings.container == "auto" else settings.container
    if named and asked and named != asked:
        raise ContainerMismatch(
            f"The name {output.name if output else ''} does not belong to a file of the kind "
            f"{CONTAINERS[asked].title}.",
            hint=f"Let the name end in {CONTAINERS[asked].suffixes[0]}.",
        )
    if named or asked:
        container = named or asked
    elif media.kind != "video" and settings.codec == "auto":
        return media.kind
    else:
        container = _container_for(media, settings)
    _check_codec(container, settings.codec)
    return container


def _named_container(media: MediaInfo, output: Path | None) -> str:
    if output is None:
        return ""
    if not output.suffix and media.kind == "sequence":
        return "sequence"  # a folder
    named = container_of_name(output)
    if named == "image" and media.kind != "image":
        raise ContainerMismatch(
            f"{output.name} is the name of one picture, but the source has many.",
            hint="Name a folder for single pictures, without a suffix."
            if media.kind == "sequence"
            else "Let the name end in .mkv, .mp4 or .mov.",
        )
    return named


def _check_codec(container: str, codec: str) -> None:
    if codec == "auto" or takes_picture(container, codec):
        return
    title = CONTAINERS[container].title if container in CONTAINERS else "A picture"
    raise ContainerMismatch(
        f"{title} cannot hold {ON_PROCESSOR[codec].title}.",
        hint="Choose MKV, which holds every codec.",
        container=container,
        codec=codec,
    )


def _container_for(media: MediaInfo, settings: JobSettings) -> str:
    """The source's own kind of file, else MKV, else another: the first that takes most."""
    family = source_family(media) or "mkv"
    codec = settings.codec if settings.codec != "auto" else _auto_codec(media, settings, family)
    able = [c for c in (family, "mkv", "mov", "mp4") if takes_picture(c, codec)]
    return min(able, key=lambda c: len(left_out(plan_streams(media, c))))


def _auto_codec(media: MediaInfo, settings: JobSettings, container: str) -> str:
    video = media.video
    if video.has_alpha and video.codec not in _FLAT_ANIMATIONS:
        if container == "mov":
            return "prores"
        if container == "mkv":
            return "ffv1"
    has_more_bits = (settings.bit_depth or video.bit_depth) > 8
    return "hevc" if has_more_bits or video.hdr else "h264"


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
        settings: What the user wants.
        size: Of the result as stored, px.
        container: From `choose_container`.
        output: Name of the result; tells PNG from TIFF.

    Raises:
        EncoderMissing: This machine cannot encode the codec, or not at this size.
        ContainerMismatch: The container cannot hold it.
        SettingsError: Depth or chroma that the codec does not have.
    """
    video = media.video
    if container in PICTURES:
        codec = _picture_codec(video, output)
    else:
        _check_codec(container, settings.codec)
        codec = settings.codec
        if codec == "auto":
            codec = _auto_codec(media, settings, container)
    least = 10 if codec == "hevc" and settings.codec == "auto" else 8
    chroma = choose_chroma(ON_PROCESSOR[codec], video, settings)
    chroma, depth, alpha = choose_layout(ON_PROCESSOR[codec], video, settings, chroma, least)
    size = allowed_size(size, chroma, codec)
    encoder = _choose_encoder(codec, settings, size, (chroma, depth, alpha))
    turns = can_write_rotation(container)
    return PicturePlan(
        size=size,
        codec=codec,
        encoder=encoder.name,
        pixel_format=encoder.formats[chroma, depth, alpha],
        chroma=chroma,
        bit_depth=depth,
        has_alpha=alpha,
        tags=result_tags(video, chroma, codec),
        sample_aspect=video.sample_aspect,
        rotation=video.rotation if turns else 0,
        is_mirrored=video.is_mirrored and turns,
        frame_rate=video.frame_rate or Fraction(25),
        time_base=video.time_base,
        options=encoder_options(
            encoder,
            crf=settings.crf,
            speed=settings.speed,
            layout=(chroma, depth, alpha),
            size=size,
        ),
        threads=min(os.cpu_count() or 1, _MOST_THREADS),
    )


def _picture_codec(video: VideoInfo, output: Path | None) -> str:
    if output is not None and output.suffix.lower() in IMAGE_SUFFIXES:
        return IMAGE_SUFFIXES[output.suffix.lower()]
    return "tiff" if video.codec == "tiff" else "png"


def _choose_encoder(
    codec: str, settings: JobSettings, size: Size, layout: tuple[Chroma, int, bool]
) -> Encoder:
    card, processor = ON_CARD.get(codec), ON_PROCESSOR[codec]
    if settings.encoder != "cpu" and card is not None:
        suits = layout in card.formats and card.fits(size)
        if suits and encoder_works(card.name):
            return card
    if settings.encoder == "nvenc" and codec not in IMAGE_SUFFIXES.values():
        raise EncoderMissing(
            f"No graphics card here can encode {processor.title} at {size} with {layout[1]} bits.",
            hint="Set the encoder to auto or cpu.",
            codec=codec,
        )
    if not processor.fits(size):
        raise EncoderMissing(
            f"{processor.title} cannot be written at {size}.",
            hint=f"It takes {processor.smallest} to {processor.largest}.",
            codec=codec,
        )
    if not encoder_works(processor.name):
        raise EncoderMissing(
            f"This machine has no encoder for {processor.title}.",
            hint="Choose another codec.",
            codec=codec,
        )
    return processor


def picture_notices(media: MediaInfo, picture: PicturePlan) -> tuple[Notice, ...]:
    """What the user should know about the picture's codec before the start.

    Returns:
        Of the codes "alpha-left-out" (warning) and "bits-reduced" (info).
    """
    video = media.video
    notices = []
    if video.has_alpha and not picture.has_alpha:
        notices.append(
            Notice(
                code="alpha-left-out",
                severity="warning",
                message="Transparency is left out: this kind of file does not carry it.",
                hint="Choose ProRes in MOV or FFV1 in MKV to keep it.",
            )
        )
    if picture.bit_depth < video.bit_depth:
        notices.append(
            Notice(
                code="bits-reduced",
                severity="info",
                message=f"The source has {video.bit_depth} bits a colour, the result "
                f"{picture.bit_depth}.",
                hint="Choose FFV1 to keep all of them.",
                params={"source": str(video.bit_depth), "result": str(picture.bit_depth)},
            )
        )
    return tuple(notices)


def estimated_bits_per_pixel(picture: PicturePlan) -> float:
    """Rough size of the result, bits a pixel and frame; a factor of two off is usual."""
    crf = int(picture.options.get("crf") or picture.options.get("cq") or "16")
    if picture.encoder == "libsvtav1":
        crf = round(crf / SVT_CRF)
    return bits_per_pixel(picture.codec, crf, picture.bit_depth, picture.chroma)


@cache
def encoder_works(name: str) -> bool:
    """Whether this machine's FFmpeg really opens an encoder; asked once a program run."""
    from engine.video.write.encode import opens  # av: only here

    return opens(name)
