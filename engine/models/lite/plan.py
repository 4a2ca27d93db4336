"""Plans of Lite and Lite Plus: how they enlarge a video, and which treatment suits a source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

from engine.core.geometry import Size
from engine.models.contracts import WorkRequest
from engine.models.frame_family import FramePlan, steadiness_of
from engine.models.lite import files
from engine.models.planning.candidates import chosen
from engine.protocol.media import VideoInfo
from engine.protocol.plan import Notice

# Source px in one call on a CPU. A job pauses between layers: one of Lite Plus takes 0.15 s on two
# cores, a whole call of Lite as much. The tiles of Lite Plus are larger because its layers compute
# up to 18 px around each: for frames of 1080p tiles take 11 % longer than whole frames, 4K 14 %.
CPU_PIXELS = {"lite": 260_000, "lite-plus": 520_000}
CUDA_PIXELS = 1_300_000
MOST_FRAMES = 8  # in one call, for small pictures
# Source px in one call for each thread of a CPU, from which on further frames only take memory:
# four of 320x180 took 110 MB more than one on two cores, of Lite Plus 250 MB, and as much time.
_THREAD_PIXELS = 30_000
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
RESTORE_QUANTISER = 25.0  # of H.264: above it the restoring treatment is nearer to the truth
_EFFICIENCY = {"hevc": 1.7, "av1": 2.0, "vp9": 1.6, "mpeg2video": 0.5, "mjpeg": 0.3}  # of H.264 = 1
CLEAN_BITS_PER_PIXEL = 0.16  # at least, for H.264 whose quantiser is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePlan(FramePlan):
    """A network of Lite or Lite Plus, frame by frame."""

    family: str = "lite"
    model: str = "lite"
    treatment: str = "faithful"  # or "restore"
    factor: int = 2  # 2 or 4
    weights: str = ""  # file name in resources/weights
    weights_sha256: str = ""

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return self.factor

    @property
    def sees_neighbours(self) -> bool:
        """Whether the network of its weights file was made for three frames."""
        return bool(self.weights) and files.config_of(self.weights).frames > 1

    @property
    def decided(self) -> dict[str, str]:
        """The treatment."""
        return {"treatment": self.treatment}

    @property
    def line(self) -> str:
        """The plan in one line."""
        tiles = "whole frames" if self.tiles == 1 else f"{self.tiles} tiles of {self.tile}"
        name = " ".join(filter(None, [self.model, f"x{self.scale}", self.treatment]))
        return f"{name}, {self.device}, {self.dtype}, {tiles}"

    @property
    def summary(self) -> tuple[Notice, ...]:
        """Treatment and tiles."""
        found = [chosen("value", value=self.treatment)] if self.treatment else []
        if self.tiles > 1:
            size = f"{self.tile.width}×{self.tile.height}"
            params = {"count": self.tiles, "size": size, "overlap": self.overlap}
            found.append(chosen("tiles", "short", **params))
        return tuple(found)


def largest(request: WorkRequest) -> LitePlan:
    """The network of the next larger factor, in the largest tiles that answer a pause at once."""
    model, device = request.model, request.device
    video, settings = request.video, request.settings
    size = request.stored_size
    factor = max(size.width / video.size.width, size.height / video.size.height)
    scale = files.SCALES[0] if factor <= files.SCALES[0] else files.SCALES[-1]
    treatment = treatment_of(video) if settings.treatment == "auto" else settings.treatment
    is_image = video.frame_count == 1
    weights = files.WeightsFile(model, scale, treatment).name
    overlap = max(settings.overlap, 2 * files.config_of(weights).receptive_radius + 4)
    pixels = CPU_PIXELS[model] if device == "cpu" else CUDA_PIXELS
    tile = _tile(video.size, settings.tile, overlap, pixels)
    plan = LitePlan(
        model=model,
        treatment=treatment,
        factor=scale,
        weights=weights,
        weights_sha256=files.weights_sha256(weights),
        device=device,
        dtype=request.dtype,
        frame=video.size,
        tile=tile,
        overlap=overlap,
        steadiness=steadiness_of(settings, is_restored=treatment == "restore" and not is_image),
        threads=request.budget.threads,
    )
    if tile != video.size:
        return plan
    if device == "cpu":
        pixels = min(pixels, _THREAD_PIXELS * plan.threads)
    return replace(plan, clip_frames=max(1, min(MOST_FRAMES, pixels // tile.pixels)))


def treatment_of(video: VideoInfo) -> str:
    """The treatment "restore" for a source damaged by a small bit rate, else "faithful".

    Judged by the mean quantiser of H.264 (figures in the model card, resources/weights), else
    roughly by the bits a pixel got, which depend on motion and detail as much. Unknown bit rates
    of lossy codecs count as clean: keeping too much is the smaller error.
    """
    if video.quantiser:
        return "restore" if video.quantiser > RESTORE_QUANTISER else "faithful"
    if video.codec in LOSSLESS or not video.bit_rate or video.frame_rate is None:
        return "faithful"
    bits = video.bit_rate / (video.size.pixels * float(video.frame_rate))
    is_clean = bits >= CLEAN_BITS_PER_PIXEL / _EFFICIENCY.get(video.codec, 1.0)
    return "faithful" if is_clean else "restore"


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
