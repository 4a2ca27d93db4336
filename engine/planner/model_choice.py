"""Which model, form, precision, clip and tiles a job begins with, before anything is shrunk."""

from __future__ import annotations

from math import ceil, sqrt
from pathlib import Path

from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.seedvr2.files import model_of
from engine.models.seedvr2.planning import choose as seedvr2
from engine.models.wan.planning import choose as wan
from engine.protocol.media import VideoInfo
from engine.protocol.plan import ModelPlan, PicturePlan
from engine.settings.schema import WAN_UPSCALERS, JobSettings

CPU_PIXELS = 260_000  # source px in one call: about 0.1 s on two cores, so pause acts at once
CUDA_PIXELS = 1_300_000
MOST_FRAMES = 8  # in one call, for small pictures
LOSSLESS = {
    "ffv1",
    "rawvideo",
    "huffyuv",
    "ffvhuff",
    "utvideo",
    "png",
    "tiff",
    "exr",
    "bmp",
    "prores",
    "dnxhd",
    "v210",
    "qtrle",
    "magicyuv",
    "cfhd",
}
RESTORE_QUANTISER = 27.0  # of H.264: above it the restoring form is nearer to the truth
_EFFICIENCY = {"hevc": 1.7, "av1": 2.0, "vp9": 1.6, "mpeg2video": 0.5, "mjpeg": 0.3}  # of H.264 = 1
CLEAN_BITS_PER_PIXEL = 0.16  # at least, for H.264 whose quantiser is not known


def choose_model(
    video: VideoInfo, picture: PicturePlan, settings: JobSettings, budget: Budget
) -> ModelPlan:
    """The model of a job, at its largest.

    Raises:
        NoUsableGpu: A card was asked for and there is none that the program can use.
        WeightsError: A file of a model is none of its kind.
    """
    device = device_of(settings, budget)
    name = _named(settings)
    if registry.is_seedvr2(name):
        where = ModelPlan(
            model=name,
            device=device,
            dtype=_wide_dtype(device, budget),
            threads=budget.threads,
        )
        size = budget.gpu_memory_bytes if device == "cuda" else 0
        return seedvr2.choose(video, picture, settings, where, card_bytes=size)
    if name in WAN_UPSCALERS:
        where = ModelPlan(model=name, device=device, threads=budget.threads)
        return wan.choose(video, settings, where)
    factor = max(picture.size.width / video.size.width, picture.size.height / video.size.height)
    if settings.model == "none" or factor <= 1:
        pixels = CPU_PIXELS * 2
        clip = max(1, min(MOST_FRAMES, pixels // max(1, video.size.pixels)))
        return ModelPlan(
            model="none", device=device, clip_frames=clip, tile=video.size, threads=budget.threads
        )
    spec = registry.LITE
    scale = spec.scales[0] if factor <= spec.scales[0] else spec.scales[-1]
    form = choose_form(video) if settings.treatment == "auto" else settings.treatment
    weights = spec.weights_name(scale, form)
    halo = config_from_shapes(registry.weights_shapes(weights)).receptive_radius
    overlap = max(settings.overlap, 2 * halo + 4)
    pixels = CPU_PIXELS if device == "cpu" else CUDA_PIXELS
    tile = _tile(video.size, settings.tile, overlap, pixels)
    whole = tile == video.size
    return ModelPlan(
        model=spec.id,
        form=form,
        scale=scale,
        weights=weights,
        weights_sha256=registry.weights_sha256(weights),
        device=device,
        dtype=_dtype(device, budget),
        clip_frames=max(1, min(MOST_FRAMES, pixels // tile.pixels)) if whole else 1,
        tile=tile,
        overlap=overlap,
        threads=budget.threads,
    )


def choose_form(video: VideoInfo) -> str:
    """Form of Lite: "restore" for a source damaged by a small bit rate, else "faithful".

    Judged by the mean quantiser of H.264 (figures in the model card, resources/weights), else
    roughly by the bits a pixel got, which depend on motion and detail as much. Unknown bit rates
    of lossy codecs count as clean: keeping too much is the smaller mistake.
    """
    if video.quantiser:
        return "restore" if video.quantiser > RESTORE_QUANTISER else "faithful"
    if video.codec in LOSSLESS or not video.bit_rate or video.frame_rate is None:
        return "faithful"
    bits = video.bit_rate / (video.size.pixels * float(video.frame_rate))
    return (
        "faithful"
        if bits >= CLEAN_BITS_PER_PIXEL / _EFFICIENCY.get(video.codec, 1.0)
        else "restore"
    )


def _named(settings: JobSettings) -> str:
    """The model that is meant; a transformer of the user's own says itself which one it is."""
    if settings.model == "auto" and settings.dit:
        return model_of(Path(settings.dit))
    return settings.model


def _wide_dtype(device: str, budget: Budget) -> str:
    """Of the transformer: bfloat16 has the range of float32, which float16 lacks."""
    if device == "cuda":
        return "bfloat16" if (budget.capability or (8, 0)) >= (8, 0) else "float16"
    return _dtype(device, budget)


def device_of(settings: JobSettings, budget: Budget) -> str:
    """Where a job computes: "cuda" or "cpu".

    Raises:
        NoUsableGpu: A card was asked for and there is none that the program can use.
    """
    if settings.device == "cuda" and not budget.cuda:
        raise NoUsableGpu(
            "There is no NVIDIA card that this installation can use.",
            hint="Choose the processor, or install the NVIDIA runtime.",
        )
    if settings.device == "auto":
        return "cuda" if budget.cuda else "cpu"
    return settings.device


def _dtype(device: str, budget: Budget) -> str:
    if device == "cuda":
        return "float16"
    return "bfloat16" if budget.has_fast_bf16 else "float32"


def _tile(frame: Size, edge: int, overlap: int, pixels: int) -> Size:
    """The whole frame where it is small enough, else equal tiles of about `pixels` px."""
    least = 2 * overlap + 8
    if edge:
        return Size(min(max(edge, least), frame.width), min(max(edge, least), frame.height))
    if frame.pixels <= pixels:
        return frame
    side = sqrt(pixels)
    columns = max(1, ceil((frame.width - overlap) / (side * 4 / 3 - overlap)))
    width = min(frame.width, ceil((frame.width - overlap) / columns) + overlap)
    rows = max(1, ceil((frame.height - overlap) / (pixels / width - overlap)))
    height = min(frame.height, ceil((frame.height - overlap) / rows) + overlap)
    return Size(width, height)
