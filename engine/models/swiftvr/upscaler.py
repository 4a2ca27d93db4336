"""SwiftVR for the pipeline: shots of a video in, restored frames of the result's size out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.contracts import BenchRequest, BenchWork
from engine.models.load import assign, shapes_alone, shapes_of
from engine.models.swiftvr.chunks import FROM_START, STEP, latent_begin
from engine.models.swiftvr.dit.config import SWIFT_DIT
from engine.models.swiftvr.dit.cost import forward_flops
from engine.models.swiftvr.dit.fast import FastSwiftDit
from engine.models.swiftvr.load import (
    LOADER,
    AnyReae,
    AnySwiftDit,
    SwiftOptions,
    load_reae,
    load_swift_dit,
)
from engine.models.swiftvr.plan import GRID, SwiftVrPlan, padded_size
from engine.models.swiftvr.requirements import VAES
from engine.models.swiftvr.shot import Shot
from engine.models.swiftvr.vae.config import REAE
from engine.models.swiftvr.vae.plain import Reae
from engine.models.upscalers import (
    Advance,
    DecodedTile,
    Restored,
    RunningShot,
    ShotModel,
    Watch,
    no_advance,
)
from engine.models.video_vae.frame_slices import finished
from engine.models.video_vae.vae_use import VaeUse


class SwiftVr(ShotModel):
    """Autoencoder and transformer of one job.

    Args:
        plan: Plan of the work.
        vae: Autoencoder, in the precision and on the device of the plan.
        dit: Transformer, likewise.
    """

    def __init__(self, plan: SwiftVrPlan, vae: AnyReae, dit: AnySwiftDit) -> None:
        self._plan = plan
        self._device = torch.device(plan.device)
        self._vae, self._dit = vae, dit
        self._advance: Advance = no_advance

    @property
    def slice_frames(self) -> int:
        """Frames that shots are fed in, the first slice apart, which has one more."""
        return STEP

    @property
    def canvas(self) -> Size:
        """Size of the finished frames."""
        return self._plan.size

    @property
    def is_pooled(self) -> bool:
        """Whether colours are corrected over the frames of a latent together."""
        return self._plan.is_pooled

    def report_to(self, advance: Advance) -> None:
        """Call something after each latent, and before each layer of the transformer."""
        self._advance = advance

    def close(self) -> None:
        """Give back buffers and pinned memory; the model is of no use afterwards."""
        self._vae.release()
        self._dit.close()

    def first_needed(self, shot: int, wanted: int) -> int:
        """The frame to begin reading at, so that `wanted` and all after it are exact."""
        return shot + STEP * GRID.restart(wanted - shot).encode_from

    def shot(
        self, shot: int, wanted: int, watch: Watch, stop: int | None = None
    ) -> SwiftVrRunningShot:
        """Begin a shot, or continue it at `wanted`; see `ShotModel.shot`."""
        frame = latent_begin(wanted - shot) if self.is_pooled else wanted - shot
        restart = GRID.restart(frame) if frame else FROM_START
        running = Shot(self._vae, self._dit, GRID, restart, self._advance)
        return SwiftVrRunningShot(running, self, shot, watch)

    def placed(self, source: Tensor) -> Tensor:
        """Frames of the source [T, 3, h, w] in [0, 1] as the autoencoder takes them."""
        dtype: torch.dtype = getattr(torch, self._plan.vae_dtype)
        return placed(source.to(self._device), self._plan.size, self._plan.padded, dtype)

    def finished(self, frames: Tensor, source: Tensor) -> Tensor:
        """Restored frames [T, 3, H, W] in [-1, 1], padded, as finished ones, nominally [0, 1]."""
        plan = self._plan
        return finished(frames, source, plan.size, colour=plan.colour, strength=plan.strength)


class SwiftVrRunningShot(RunningShot):
    """A shot that is being fed; numbers of frames are those of the job."""

    def __init__(self, shot: Shot, model: SwiftVr, start: int, watch: Watch) -> None:
        self._shot, self._model, self._start, self._watch = shot, model, start, watch

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Take the next frames of the source; see `RunningShot.push`."""
        for part in self._shot.push(self._model.placed(frames), last=last):
            first, shown = part.first + self._start, part.frames
            del part
            size = Box(0, 0, shown.shape[-1], shown.shape[-2])
            last_shown = shown[-1].to(torch.float32, copy=True)
            end = first + len(shown)
            self._watch(DecodedTile(frame=end - 1, index=0, tiles=1, box=size, picture=last_shown))
            del last_shown
            if self._model.is_pooled:
                yield Restored(first=first, frames=shown)
            else:
                for number in range(len(shown)):
                    yield Restored(first=first + number, frames=shown[number : number + 1])
            del shown  # before others are decoded


def placed(frames: Tensor, size: Size, padded: Size, dtype: torch.dtype) -> Tensor:
    """Frames enlarged as the model was trained, and black to the right and below.

    Args:
        frames: [T, 3, h, w] float32, nominally 0 to 1; what is outside of that is clipped.
        size: Size of the result.
        padded: Size that the model takes.
        dtype: Type of the autoencoder.

    Returns:
        [T, 3, padded.height, padded.width] in [0, 1].

    Memory: the result, and one frame in float32.
    """
    sides = size.height, size.width
    found = frames.new_zeros((len(frames), 3, padded.height, padded.width), dtype=dtype)
    for frame, place in zip(frames, found, strict=True):
        some = frame[None].clamp(0, 1)
        if some.shape[-2:] != sides:
            some = F.interpolate(some, sides, mode="bilinear", align_corners=False)
        place[:, : size.height, : size.width] = some[0]
    return found


def load_swiftvr(plan: SwiftVrPlan) -> SwiftVr:
    """Read the files of a plan.

    Raises:
        WeightsError: One is missing, damaged or of another model.
        FeatureMissing: The device cannot do what the plan says.

    Memory: the autoencoder, the blocks of the transformer that stay on the device, and two more.
    """
    device = torch.device(plan.device)
    vae = load_reae(
        plan.vae.path,
        form="fast",
        device=device,
        dtype=getattr(torch, plan.vae_dtype),
        switches=plan.switches.vae,
    )
    options = SwiftOptions(
        products=plan.products,
        blocks_on_device=plan.blocks_on_device,
        pin_bytes=plan.pin_bytes,
        attention=plan.attention,
    )
    prompt = None if plan.text is None else plan.text.path
    dtype = getattr(torch, plan.dtype)
    dit = load_swift_dit(
        plan.dit.path, prompt, form="fast", device=device, dtype=dtype, options=options
    )
    return SwiftVr(plan, vae, dit)


# --- with random weights

_ROWS = 512  # of a prompt that differ
_SCALE = 0.02  # of random weights: all values stay finite
_SIDES = {"cpu": 256, "cuda": 1024}  # of frames, px
# As wide as a CPU can measure in seconds; the autoencoder has its published size.
NARROW = replace(SWIFT_DIT, heads=4, layers=4, hidden=2048)


def random_work(request: BenchRequest) -> BenchWork:
    """A shot of one chunk through all parts, with random weights; see `NARROW` for a CPU.

    Args:
        request: Device, and sizes where the user chose some; frames are padded to whole tokens.

    Memory: the models, 10 GB in half precision, and what a shot of that size takes.
    """
    on_gpu = request.device == "cuda"
    side = _SIDES[request.device] // (2 if request.quick else 1)
    size, name = padded_size(request.size or Size(side, side)), request.dtype
    name = name or ("bfloat16" if on_gpu else "float32")
    dtype, device = getattr(torch, name), torch.device(request.device)
    config = SWIFT_DIT if on_gpu else NARROW
    frames, latents = STEP * GRID.length + 1, GRID.length + 1
    with shapes_alone():
        dit, plain = FastSwiftDit(config, _ROWS), Reae(REAE)
    for part, shape in shapes_of(dit).items():
        assign(dit, part, _SCALE * torch.randn(shape, device=device, dtype=dtype))
    weights = {part: _SCALE * torch.randn(shape) for part, shape in shapes_of(plain).items()}
    vae = LOADER.fast(REAE, weights, device=device, dtype=dtype)
    clip = torch.rand(frames, 3, size.height, size.width, device=device, dtype=dtype)
    latent = latents, size.height // REAE.spatial_factor, size.width // REAE.spatial_factor
    use = VaeUse(dtype=name, device="cuda" if on_gpu else "cpu")
    calls = (VAES.work(REAE, call, use, size).later for call in ("encode_slice", "decode_slice"))
    made = sum(latents * call.operations for call in calls)

    def compute() -> list[Restored]:
        with torch.inference_mode():
            return [*Shot(vae, dit, GRID).push(clip, last=True)]

    return BenchWork(
        compute=compute,
        dtype=name,
        megapixels=frames * size.pixels / 1e6,
        operations=made + forward_flops(config, _ROWS, latent).total,
    )
