"""Wan 2x as the pipeline sees it: shots of a video in, frames of twice the size out.

The video is encoded by the VAE of Wan 2.1 and decoded by one that was trained to give frames
twice as large. A shot is one pass of both, so no frame shows where slices or tiles meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.upscalers import (
    Advance,
    Restored,
    RunningShot,
    ShotModel,
    Watch,
    no_advance,
)
from engine.models.video_vae.frame_slices import Ending, finished
from engine.models.wan.files import wan_config
from engine.models.wan.plan import WanPlan
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.load import Wan, load_wan
from engine.models.wan.vae.receptive_field import decoder_reach, encoder_reach
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.ops.transfer.parking import Parking
from engine.tiling.latent_clips import first_frame, latent_of, mirrored_indices


@dataclass(frozen=True, slots=True)
class Resumption:
    """Place to begin inside a shot, so that everything from a latent on is the same."""

    encode_from: int  # latent whose last frame the encoder takes for the first one of a clip
    decode_from: int  # latent that the decoder takes for the first one of a clip
    wanted: int  # first latent whose frames are right


def resumption(config: WanConfig, frame: int) -> Resumption:
    """Place to continue a shot at one of its frames.

    Args:
        config: Configuration of the VAE.
        frame: Counted from the start of the shot.
    """
    wanted = latent_of(frame, config.temporal_factor)
    decode_from = max(0, wanted - decoder_reach(config))
    encode_from = max(0, decode_from - encoder_reach(config))
    return Resumption(encode_from, decode_from, wanted)


def streamings(plan: WanPlan, step: int, parking: Parking) -> tuple[Streaming, Streaming]:
    """Slices and tiles of encoder and decoder; `step` frames are a latent."""
    encode = Streaming(
        tile=plan.encode_tile,
        warm_up=plan.warm_up,
        parks=plan.parks,
        slice_latents=plan.clip_frames // step,
        parking=parking,
        at_once=plan.encode_at_once,
    )
    return encode, replace(encode, tile=plan.decode_tile, at_once=plan.decode_at_once)


def load_vae(plan: WanPlan) -> Wan:
    """The fast variant of the VAE of a plan, on its device.

    Raises:
        WeightsError: The file is missing, damaged or of another model.

    Memory: the model, and the tables of one layer.
    """
    return load_wan(
        plan.vae.path,
        form="fast",
        device=plan.device,
        dtype=getattr(torch, plan.dtype),
        switches=plan.switches.vae,
    )


class WanUpscaler(ShotModel):
    """The VAE of one job.

    Args:
        plan: Tiles and memory.
        vae: VAE with the decoder that enlarges, on the device and in the precision of the plan.

    Memory: that of the streams, and the source's frames of a slice.
    """

    def __init__(self, plan: WanPlan, vae: Wan) -> None:
        self._plan = plan
        self._device = torch.device(plan.device)
        self._vae = vae
        self._parking = Parking(plan.park_pin_bytes)
        self.advance: Advance = no_advance

    @property
    def slice_frames(self) -> int:
        """Frames that shots are fed in, the first slice apart, which has one more."""
        return self._plan.clip_frames

    @property
    def is_pooled(self) -> bool:
        """Frames are finished one by one."""
        return False

    @property
    def canvas(self) -> Size:
        """Size of the finished frames."""
        return self._plan.canvas

    def report_to(self, advance: Advance) -> None:
        """Call something before each slice, after each tile, and where frames went through."""
        self.advance = advance

    def first_needed(self, shot: int, wanted: int) -> int:
        """The frame to begin reading at, see `ShotModel`."""
        config = self._vae.config
        return shot + config.temporal_factor * resumption(config, wanted - shot).encode_from

    def shot(self, shot: int, wanted: int, watch: Watch, stop: int | None = None) -> RunningShot:
        """Begin a shot, or continue it at `wanted`; frames come out soon, whatever `stop` is."""
        plan, config = self._plan, self._vae.config
        at = resumption(config, wanted - shot)
        encode, decode = streamings(plan, config.temporal_factor, self._parking)
        first = shot + config.temporal_factor * at.decode_from
        ways = (
            WanEncodeStream(self._vae, plan.padded, encode, lambda: self.advance("encode", 0)),
            WanDecodeStream(self._vae, plan.padded, decode, watch, first=first),
        )
        return _Running(self, ways, shot, at, config.temporal_factor)

    def placed(self, source: Tensor) -> Tensor:
        """Frames of the source [T, 3, h, w] in [0, 1] as the encoder takes them, in [-1, 1].

        Missing columns and rows of a whole latent position are mirrored; in a frame too small for
        that the last ones are repeated.
        """
        frames = source.to(self._device).clamp(0, 1).mul_(2).sub_(1)
        height, width = frames.shape[-2:]
        rows = mirrored_indices(height, self._plan.padded.height - height)
        columns = mirrored_indices(width, self._plan.padded.width - width)
        if len(rows) > height:
            frames = frames[..., rows, :]
        return frames[..., columns] if len(columns) > width else frames

    def finished(self, frames: Tensor, source: Tensor) -> Tensor:
        """Restored frames [T, 3, H, W] in [-1, 1], padded, as finished ones, nominally [0, 1]."""
        return finished(frames, source, self.canvas)

    def close(self) -> None:
        """Give back buffers; the model is of no use afterwards."""
        self._vae.release()
        self._parking.release()


class _Running(RunningShot):
    """A shot that is being fed; numbers of frames are those of the job."""

    def __init__(
        self,
        model: WanUpscaler,
        ways: tuple[WanEncodeStream, WanDecodeStream],
        shot: int,
        at: Resumption,
        step: int,
    ) -> None:
        self._model = model
        self._encode, self._decode = ways
        self._shot = shot
        self._ending = Ending(step, step * at.encode_from)
        self._wrong = at.decode_from - at.encode_from  # latents that are still to come
        self._frame = step * at.decode_from  # next one of the decoder, counted from the shot's
        self._wanted = first_frame(at.wanted, step)

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Take the next frames of the source; see `RunningShot.push`."""
        placed = self._ending.filled(self._model.placed(frames), last=last)
        latents = self._encode.push(placed, last=last)
        self._model.advance("encode", len(frames))
        wrong = min(self._wrong, latents.shape[2])
        self._wrong -= wrong
        for part in self._decode.push(latents[:, :, wrong:], last=last):
            self._model.advance("decode", len(part))
            yield from self._shown(part)

    def _shown(self, part: Tensor) -> Iterator[Restored]:
        """The wanted ones of some decoded frames, without padding after the shot's end."""
        start = max(0, self._wanted - self._frame)
        frames = part[start : max(0, self._ending.count - self._frame)]
        first = self._frame + start
        self._frame += len(part)
        if len(frames):
            yield Restored(first=self._shot + first, frames=frames)


def load_wan_upscaler(plan: WanPlan) -> WanUpscaler:
    """Load the VAE of a plan.

    Raises:
        WeightsError: As `load_vae`, or it is a VAE that does not enlarge.
    """
    wan_config(plan.vae, "wan-2x")
    return WanUpscaler(plan, load_vae(plan))
