"""Training of a Wan decoder: frames from the latents that a frozen encoder makes of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from engine.models.vae_module import reduced
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.plain import UpStage, WanDecoder, WanVae
from engine.ops.conv.causal_conv import Carry
from tools.training.checkpointing import checkpoint_parts
from tools.training.clips import Clips


class WanDecoding:
    """Decoding of what the encoder gives for clips, half as large for a decoder that enlarges.

    The loss is the mean absolute error, plus a share of that of the steps between neighbouring
    pixels, which keeps edges sharp.

    Args:
        vae: The plain variant, float32, on the CPU. Its encoder stays as it is.
        clips: To learn from.
        batch: Clips of a step.
        edges: Weight of the steps between pixels.
        has_checkpoints: Activations are computed twice in the place of being kept.
    """

    def __init__(
        self, vae: WanVae, clips: Clips, *, batch: int, edges: float, has_checkpoints: bool
    ) -> None:
        self.net = vae
        self._clips, self._batch, self._edges = clips, batch, edges
        vae.requires_grad_(False)
        for part in (vae.conv2, vae.decoder):
            part.requires_grad_(True)
        if has_checkpoints:
            checkpoint_parts(_parts(vae.decoder))

    @property
    def matrices(self) -> tuple[str, ...]:
        """None: trained weights are only tuned."""
        return ()

    def batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Clips [B, 3, T, h, w] for the encoder, [B, 3, T, H, W] as wanted, both in [-1, 1]."""
        chosen = self._clips[rng.integers(0, len(self._clips), self._batch)]
        return self._pair([clip[:, :, ::-1] if rng.integers(2) else clip for clip in chosen])

    def _pair(self, clips: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        pictures = torch.from_numpy(np.stack(clips)).permute(0, 4, 1, 2, 3)
        wanted = pictures.float().div_(127.5).sub_(1)
        return reduced(wanted, self.net.config.upscale), wanted

    def result(self, given: Tensor) -> Tensor:
        """[B, 3, T, h, w] -> pictures [B, 3, T, H, W], about in [-1, 1]."""
        with torch.no_grad():
            latent = self.net.encode(given)
        return self.net.decode_slice(latent, Carry(last=True))[0]

    def loss(self, result: Tensor, wanted: Tensor, progress: float) -> Tensor:
        """See the class; the same all the time."""
        error = result - wanted
        loss = error.abs().mean()
        if self._edges:
            steps = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
            loss = loss + self._edges * steps
        return loss

    def error(self, clips: Clips) -> float:
        """Mean absolute error of the decoder on clips, in code values of 8 bits."""
        device, total = next(self.net.parameters()).device, 0.0
        with torch.no_grad():
            for clip in clips:
                given, wanted = (part.to(device) for part in self._pair([clip]))
                total += float((self.result(given) - wanted).abs().mean())
        return 127.5 * total / len(clips)

    def weights(self, learnt: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All of the VAE, encoder too, under Wan's own names: what Upreel takes as a file."""
        return {**self.net.state_dict(), **learnt}


def _parts(decoder: WanDecoder) -> Iterator[nn.Module]:
    """Blocks, upsamplers and convolutions, the first to the last."""
    yield from (decoder.conv1, *decoder.middle)
    for part in decoder.upsamples:
        yield from part.upsamples if isinstance(part, UpStage) else (part,)
    yield decoder.head


def check_clip(config: WanConfig, *, frames: int, side: int) -> None:
    """Whether a VAE takes clips of this length and size.

    Raises:
        argparse.ArgumentError: It does not.
    """
    if frames < 1 or (frames - 1) % config.temporal_factor:
        text = f"--frames {frames}: this VAE takes 1 + a multiple of {config.temporal_factor}"
        raise argparse.ArgumentError(None, text)
    unit = config.spatial_factor * config.upscale
    if side < unit or side % unit:
        text = f"--side {side}: this VAE takes multiples of {unit} px"
        raise argparse.ArgumentError(None, text)
