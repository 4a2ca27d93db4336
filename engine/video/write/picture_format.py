"""Choice of what a codec writes: chroma, depth, alpha, colour tags, and the sizes it can store."""

from __future__ import annotations

from dataclasses import replace

from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.protocol.media import Chroma, ColourTags, VideoInfo
from engine.settings.schema import JobSettings
from engine.video.write.containers import IMAGE_SUFFIXES
from engine.video.write.encoders import (
    ON_PROCESSOR,
    Encoder,
    Layout,
    subsampling,
)

_INTERCHANGE_BITS = 10  # what players and televisions decode; 12 bits only when asked for
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


def assumed_matrix(size: Size) -> str:
    """Matrix of an untagged YUV picture: BT.601 for SD, BT.709 above."""
    return "smpte170m" if size.height <= 576 and size.width <= 1024 else "bt709"


def allowed_size(size: Size, chroma: Chroma, codec: str = "h264") -> Size:
    """The nearest size that can be stored: whole chroma samples, larger in case of doubt.

    FFV1 and pictures take every size.
    """
    if not ON_PROCESSOR[codec].needs_whole_chroma:
        return size
    across, down = subsampling(chroma)
    return Size(_multiple(size.width, across), _multiple(size.height, down))


def _multiple(value: int, step: int) -> int:
    return max(step, (value + step // 2) // step * step)


def choose_chroma(encoder: Encoder, video: VideoInfo, settings: JobSettings) -> Chroma:
    """Chroma of the result: as asked for, else 4:2:0 for players, else nearest to the source.

    Raises:
        SettingsError: The codec does not have it.
    """
    codec = encoder.codec
    known = encoder.chromas()
    if settings.chroma != "auto" and codec not in IMAGE_SUFFIXES.values():
        for chroma in known:
            if chroma == settings.chroma:
                return chroma
        raise SettingsError(
            f"{encoder.title} cannot be written with chroma {settings.chroma}.",
            hint=f"Choose one of: {', '.join(known)}.",
            setting="chroma",
        )
    if codec == "prores" and video.has_alpha:
        return "444"
    if codec in ("h264", "hevc", "av1"):
        return "420"
    return next((c for c in _NEAREST[video.chroma] if c in known), known[0])


def choose_layout(
    encoder: Encoder, video: VideoInfo, settings: JobSettings, chroma: Chroma, least: int
) -> Layout:
    """Depth and alpha of the result: the source's where the codec has them.

    Args:
        encoder: Any of the codec.
        video: The source.
        settings: What the user wants.
        chroma: From `choose_chroma`; only FFV1 may leave it, to keep alpha.
        least: Fewest bits, unless asked for otherwise.

    Raises:
        SettingsError: The codec does not have the wanted depth.
    """
    depths = encoder.depths(chroma)
    if settings.bit_depth and encoder.codec not in IMAGE_SUFFIXES.values():
        if settings.bit_depth not in depths:
            raise SettingsError(
                f"{encoder.title} cannot be written with {settings.bit_depth} bits.",
                hint=f"Choose one of: {', '.join(map(str, depths))}.",
                setting="bit_depth",
            )
        wanted = settings.bit_depth
    else:
        wanted = max(least, settings.bit_depth or video.bit_depth)
        if encoder.is_lossy:
            wanted = min(wanted, _INTERCHANGE_BITS)
    if video.has_alpha:
        with_alpha = [d for d in encoder.depths(chroma, alpha=True) if d >= wanted]
        if with_alpha:
            return chroma, with_alpha[0], True
        if encoder.codec == "ffv1":  # the few layouts without alpha: 4:4:4 has all
            return "444", 16 if wanted > 12 else max(wanted, 8), True
    return chroma, next((d for d in depths if d >= wanted), depths[-1]), False


def result_tags(video: VideoInfo, chroma: Chroma, codec: str) -> ColourTags:
    """The source's tags; matrix and range are always said, since the size may change the guess."""
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
    said = tags.range or ("pc" if video.pixel_format.startswith("yuvj") else "tv")
    return replace(
        tags,
        matrix=tags.matrix or assumed_matrix(video.size),
        range="tv" if codec == "prores" else said,
        chroma_location=location,
    )
