"""What a source is: a film or pictures, or latents, which become a film before anything is done.

Loads neither torch nor av by itself.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from engine.core import windows_paths
from engine.core.errors import SourceMissing, UnsupportedMedia
from engine.models import registry
from engine.models.latents import LatentFormat, LatentHeader
from engine.protocol.media import (
    LATENT,
    ColourTags,
    MediaInfo,
    VideoInfo,
)
from engine.protocol.plan import LatentPlan, Plan
from engine.settings.schema import JobSettings

_PIXEL_FORMAT = "gbrp16le"
_TAGS = ColourTags(matrix="rgb", range="pc", primaries="bt709", transfer="bt709")
_NEAR = 0.005  # frames/s: 23.98 is meant to be 24000/1001


def latents_of(path: Path) -> LatentFormat | None:
    """The format of a file that holds latents, by its name; None for anything else."""
    found = registry.latent_format(path)
    return None if found is None or path.is_dir() else found


def required_latents(path: Path) -> LatentFormat:
    """The format of a file that is to hold latents, whatever its name is."""
    return registry.latent_format(path) or registry.latent_formats()[0]


def probe_source(path: Path, settings: JobSettings) -> MediaInfo:
    """What a source is; of latents, the film that will be made of them.

    Args:
        path: A file, or what else `engine.video.read.probe` takes.
        settings: Of the job: they may have the frame rate of latents.

    Raises:
        InputError: It cannot be used.
    """
    path = windows_paths.openable(path)
    latents = latents_of(path)
    if latents is not None:
        return _film_of_latents(path, latents.header(path), settings)
    from engine.video.read.probe import probe

    return probe(path)


def described(media: MediaInfo, settings: JobSettings) -> MediaInfo:
    """A source that was probed, with other settings."""
    return probe_source(media.path, settings) if media.holds_latents else media


def decoded(media: MediaInfo, plan: Plan, folder: Path) -> MediaInfo | None:
    """The film that a job reads: its source, or what was decoded of it; None before that is done.

    Args:
        media: The source.
        plan: Of the job.
        folder: Of the job.
    """
    if plan.latent is None:
        return media
    film = film_path(media, plan.latent, folder)
    return film_at(media, film) if film.is_file() else None


def film_path(media: MediaInfo, plan: LatentPlan, folder: Path) -> Path:
    """Where a job keeps what it decoded: another name for whatever would look different.

    Raises:
        SourceMissing: The latents have gone.
    """
    try:
        about = media.path.stat()
    except OSError as err:
        raise SourceMissing("since-start", path=windows_paths.shown(media.path)) from err
    key = (
        *(about.st_size, about.st_mtime_ns, media.video.frame_rate),
        *(plan.vae.path, plan.vae.bytes, plan.vae.modified_ns, plan.model, plan.normalised),
    )
    name = hashlib.sha256("|".join(map(str, key)).encode()).hexdigest()[:12]
    return folder / f"decoded_{name}.avi"


def film_at(media: MediaInfo, path: Path) -> MediaInfo:
    """Latents as the film that was decoded from them."""
    return replace(
        media,
        path=path,
        container="avi",
        bytes=path.stat().st_size,
        video=replace(media.video, codec="ffv1"),
    )


def probe_film(path: Path) -> MediaInfo:
    """What a file that has pictures is.

    Raises:
        UnsupportedMedia: It holds latents, whose pictures have to be decoded first.
        InputError: It cannot be used.
    """
    if latents_of(path) is not None:
        raise UnsupportedMedia("latents", name=path.name)
    return probe_source(path, JobSettings())


def _film_of_latents(path: Path, header: LatentHeader, settings: JobSettings) -> MediaInfo:
    rate = exact_rate(settings.latent_rate) if settings.latent_rate else header.film.rate
    return MediaInfo(
        path=path,
        kind="video" if header.film.frames > 1 else "image",
        container=LATENT,
        bytes=path.stat().st_size,
        video=_video(header, rate),
    )


def _video(header: LatentHeader, rate: Fraction) -> VideoInfo:
    return VideoInfo(
        index=0,
        codec=LATENT,
        size=header.film.size,
        pixel_format=_PIXEL_FORMAT,
        chroma="rgb",
        bit_depth=16,
        frame_rate=rate,
        time_base=1 / rate,
        frame_count=header.film.frames,
        frame_count_is_exact=True,
        duration=header.film.frames / rate,
        tags=_TAGS,
    )


def exact_rate(rate: float) -> Fraction:
    """The frame rate that is meant: 23.976 is 24000/1001."""
    whole = Fraction(round(rate) or 1)
    for meant in (whole, whole * 1000 / 1001):
        if abs(rate - meant) < _NEAR:
            return meant
    return Fraction(rate).limit_denominator(1000)
