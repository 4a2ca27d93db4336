"""SeedVR2 for the pipeline: shots of a video in, restored pictures out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Size
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.plan import STEP, FrameLayout, SeedVr2Plan
from engine.models.seedvr2.preprocess import place
from engine.models.seedvr2.sampler import (
    condition,
    noisy_frames,
    noisy_latent,
    reference_noise,
    sample,
    seeded_noise,
)
from engine.models.seedvr2.shot import ClippedShot, Shot, ShotOptions
from engine.models.seedvr2.text_embedding import load_text_embedding
from engine.models.seedvr2.vae.load import Vae, load_vae
from engine.models.seedvr2.vae.tiling import Tiling, decoder_lookback, encoder_lookback
from engine.models.upscalers import (
    Advance,
    DecodedTile,
    Restored,
    ShotModel,
    Watch,
    no_advance,
)
from engine.models.video_vae.frame_slices import FiniteCheck, finished
from engine.ops.resize import resize
from engine.ops.transfer.parking import Parking
from engine.tiling.latent_clips import ClipGrid, latent_of

_Four = tuple[int, int, int, int]


class SeedVr2(ShotModel):
    """VAE, transformer and text embedding of one job.

    Args:
        plan: Plan of the work.
        vae: VAE, in the precision and on the device of the plan.
        dit: Transformer, likewise.
        text: [L, D], in the precision of the transformer.
    """

    def __init__(self, plan: SeedVr2Plan, vae: Vae, dit: SeedVr2Dit, text: Tensor) -> None:
        self._plan = plan
        self._device = torch.device(plan.device)
        self._dtype: torch.dtype = getattr(torch, plan.dtype)
        self._vae, self._dit, self._text = vae, dit, text
        self._advance: Advance = no_advance
        self._parking = Parking(plan.park_pin_bytes)
        self._finite = FiniteCheck()
        self._layout = FrameLayout(
            picture=self._plan.size, padded=self._plan.padded, reflected=self._plan.reflected
        )

    @property
    def slice_frames(self) -> int:
        """Frames that shots are fed in, the first slice apart, which has one more."""
        return self._vae.usual_slice_frames

    @property
    def canvas(self) -> Size:
        """Size of the finished pictures."""
        return self._plan.size

    @property
    def is_pooled(self) -> bool:
        """Whether colours are corrected over all frames of a block together."""
        return self._plan.is_pooled

    def report_to(self, advance: Advance) -> None:
        """Call something after each slice of a tile, and before each layer of the transformer.

        A clip can take minutes, and no user should wait for that.
        """
        self._advance = advance
        self._dit.check_between(lambda: advance("transformer", 0))

    def close(self) -> None:
        """Give back buffers and pinned memory; the model is of no use afterwards."""
        self._dit.close()
        self._vae.release()
        self._parking.release()

    def first_needed(self, shot: int, wanted: int) -> int:
        """The frame to begin reading at, so that `wanted` and all after it are exact.

        Args:
            shot: First frame of the shot, counted from the first frame of the job.
            wanted: A frame of it, counted likewise.
        """
        return shot + self._shot(shot, wanted, lambda _: None).first

    def shot(
        self, shot: int, wanted: int, watch: Watch, stop: int | None = None
    ) -> SeedVr2RunningShot:
        """Begin a shot, or continue it at `wanted`; see `ShotModel.shot`."""

        def report(tile: DecodedTile) -> None:
            watch(replace(tile, frame=tile.frame + shot))

        return SeedVr2RunningShot(self._shot(shot, wanted, report, stop), self, shot)

    def placed(self, source: Tensor, shot: int, first: int) -> Tensor:
        """Frames of the source [T, 3, h, w] in [0, 1] as the VAE takes them, in [-1, 1]."""
        size = self._plan.size
        frames = place(resize(source.to(self._device), size), self._layout)
        share = self._plan.input_noise / 100
        if not share:
            return frames
        shape = (len(frames), *frames.shape[1:])
        noise = seeded_noise(_four(shape), self._plan.seed + 2, shot=shot, first=first)
        return noisy_frames(frames, share, noise.to(frames))

    def finished(self, frames: Tensor, source: Tensor) -> Tensor:
        """Restored frames [T, 3, H, W] in [-1, 1], padded, as finished ones, nominally [0, 1]."""
        plan = self._plan
        return finished(frames, source, plan.size, colour=plan.colour, strength=plan.strength)

    def restored(self, latents: Tensor, shot: int, first: int) -> Tensor:
        """The transformer's result for a clip [t, h, w, L]; noise depends on shot and position."""
        self.release_vae()
        noise, more = (part.to(latents) for part in self._noises(_four(latents.shape), shot, first))
        latents = noisy_latent(latents, self._plan.latent_noise / 100, noise, more)
        result = sample(self._predict, noise, condition(latents), self._text)
        self._dit.release()
        self._finite.note(result, "transformer", self._dtype)
        return result

    def check_restored(self) -> None:
        """Refuse latents of the transformer that are NaN or infinite.

        The host would wait for the GPU to know it: this is asked where frames of the decoder are
        not finite, as none are that it makes of such latents.

        Raises:
            NumericOverflow: The planner takes a wider format for the transformer.
        """
        self._finite.check()

    def release_vae(self) -> None:
        """Free the VAE's buffers for the transformer."""
        self._vae.release()

    def _noises(self, shape: _Four, shot: int, first: int) -> tuple[Tensor, Tensor]:
        """Noise that sampling starts from, and noise for the condition where that is wanted."""
        seed = self._plan.seed
        if self._plan.noise_order == "reference":
            generator = torch.Generator().manual_seed(seed)
            return reference_noise(shape, generator), reference_noise(shape, generator)
        noise = seeded_noise(shape, seed, shot=shot, first=first)
        if not self._plan.latent_noise:
            return noise, noise
        return noise, seeded_noise(shape, seed + 1, shot=shot, first=first)

    def _predict(self, latent: Tensor, text: Tensor, timestep: float) -> Tensor:
        velocity: Tensor = self._dit(latent.to(self._dtype), text, timestep)
        return velocity.float()

    def _shot(
        self, shot: int, wanted: int, watch: Watch, stop: int | None = None
    ) -> Shot | ClippedShot:
        plan, config = self._plan, self._vae.config
        options = replace(shot_options(plan), parking=self._parking)

        def restore(latents: Tensor, first: int) -> Tensor:
            found = self.restored(latents, shot, first)
            self._advance("transformer", (len(latents) - plan.shared_latents) * STEP)
            return found

        if plan.join != "latents":
            frame = wanted - shot
            return ClippedShot(self._vae, restore, options, watch, frame, self._advance)
        restart = options.grid.restart(
            latent_of(wanted - shot, config.temporal_factor),
            encoder=encoder_lookback(config, options.encode),
            decoder=decoder_lookback(config, options.decode),
        )
        end = None if stop is None else stop - shot
        return Shot(self._vae, restore, options, watch, restart, self._advance, stop=end)


class SeedVr2RunningShot:
    """A shot that is being fed; numbers of frames are those of the job."""

    def __init__(self, shot: Shot | ClippedShot, model: SeedVr2, start: int) -> None:
        self._shot, self._model, self._start = shot, model, start
        self._fed = start + shot.first

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Take the next frames of the source; see `Shot.push`."""
        first, count = self._fed - self._start, len(frames)
        self._fed += count
        has_decoded = False
        try:
            for part in self._shot.push(self._model.placed(frames, self._start, first), last=last):
                yield replace(part, first=part.first + self._start)
                has_decoded = True
                del part  # another clip may follow at once
        except NumericOverflow:
            self._model.check_restored()  # before it is the decoder's fault
            raise
        if has_decoded:
            self._model.release_vae()


def load_seedvr2(plan: SeedVr2Plan) -> SeedVr2:
    """Read the files of a plan.

    Raises:
        WeightsError: One is missing, damaged or of another model.
        FeatureMissing: The device cannot do what the plan says.

    Memory: the VAE, the blocks of the transformer that stay on the device, and two more.
    """
    device, dtype = torch.device(plan.device), getattr(torch, plan.dtype)
    vae = load_vae(
        plan.vae.path,
        form="fast",
        device=device,
        dtype=getattr(torch, plan.vae_dtype),
        switches=plan.switches.vae,
    )
    options = LoadOptions(
        products=plan.products,
        blocks_on_device=plan.blocks_on_device,
        pin_bytes=plan.pin_bytes,
        attention=plan.attention,
        switches=plan.switches.dit,
    )
    dit = load_dit(plan.dit.path, form="fast", device=device, dtype=dtype, options=options)
    text = load_text_embedding(plan.text.path, dit.config)
    return SeedVr2(plan, vae, dit, text.to(device, dtype))


def shot_options(plan: SeedVr2Plan) -> ShotOptions:
    """Options of the shots of a plan."""
    encode = Tiling(
        tile=plan.encode_tile or plan.padded,
        warm_up=0 if plan.encode_tile is None else plan.warm_up,
        span=plan.encode_span,
        at_once=plan.encode_at_once,
    )
    decode = None
    if plan.decode_tile is not None:
        decode = Tiling(
            tile=plan.decode_tile,
            warm_up=plan.warm_up,
            span=plan.decode_span,
            is_whole=plan.decodes_whole_tiles,
            at_once=plan.decode_at_once,
        )
    grid = ClipGrid(plan.clip, plan.shared)
    return ShotOptions(frame=plan.padded, grid=grid, encode=encode, decode=decode, parks=plan.parks)


def _four(shape: torch.Size | tuple[int, ...]) -> _Four:
    first, second, third, fourth = shape
    return first, second, third, fourth
