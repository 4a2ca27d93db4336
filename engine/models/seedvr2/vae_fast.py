"""The VAE of SeedVR2, fast form: equal to the plain one but for rounding, see docs/vae-folds.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from engine.models.seedvr2.config import VaeConfig
from engine.models.seedvr2.fast_build import Builder, decoder, encoder
from engine.models.seedvr2.fast_parts import TileFlow, TilePart
from engine.models.seedvr2.fast_statistics import Statistics
from engine.models.seedvr2.form import VaeForm
from engine.models.slicing import clamped_moments
from engine.ops.conv3d import Carry
from engine.ops.conv_probe import choose_convolution
from engine.ops.cuda_graph import GraphedCalls
from engine.ops.frame_conv import ConvOptions
from engine.ops.precision import exact_arithmetic, no_gradients
from engine.ops.taps import Form
from engine.ops.workspace import Workspace
from engine.optimisations import VaeSwitches

Way = Literal["encode", "decode"]
_GRAPH_PIXELS = 2**19  # of all frames; above that the card works longer than it is told to


class FastVae(VaeForm):
    """Encoder and decoder with exact folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Args:
        config: Of the VAE.
        weights: Published name -> tensor; read one at a time.
        device: Where to work.
        dtype: Of activations and convolutions; norms are computed in float32 (float64).
        switches: Which optimisations to use.

    Attributes:
        trace: Called with the module path and a copy of the result of each block,
            [1, C, T, H, W] (attention: [T, C, H, W]), of the first clip of a batch.

    Memory: `engine.models.seedvr2.cost` says how many bytes.
    """

    def __init__(
        self,
        config: VaeConfig,
        weights: Mapping[str, Tensor],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        switches: VaeSwitches | None = None,
    ) -> None:
        self.config = config
        self.switches = switches or VaeSwitches()
        self.device, self.dtype = torch.device(device), dtype
        self.trace: Callable[[str, Tensor], None] | None = None
        self.workspace = Workspace(
            self.device,
            dtype,
            planned=self.switches.planned_buffers,
            channels_last=self.switches.channels_last,
        )
        options = ConvOptions(
            dtype=dtype,
            form=_form(self.switches, self.device, dtype),
            fold=self.switches.first_frame_fold or self.switches.image_mode,
            winograd=self.switches.temporal_winograd,
        )
        with no_gradients(), exact_arithmetic():
            build = Builder(config, weights, self.device, options, self.switches)
            self._low, self._high = decoder(build, config)
            self._parts: dict[Way, list[TilePart]] = {
                "encode": encoder(build, config),
                "decode": [*self._low, *self._high],
            }
        self._graphs = self._graphed() if self.switches.cuda_graph else {}

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice; see `SlicedVae`."""
        found, carry = self._clips("encode", frames, carry)
        return clamped_moments(found), carry

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Decode one slice; see `SlicedVae`."""
        return self._clips("decode", latent, carry)

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at low resolution, which sees the whole frame.

        Args:
            latent: [1, L, t, h, w], a slice.
            carry: Of this part.

        Returns:
            Features [T, C, 2*h, 2*w] in channels last, T = 2*t, one less in the first slice; the
            next carry.
        """
        return self._frames(self._low, latent, carry, None)

    def decode_high(
        self, features: Tensor, carry: Carry, statistics: Statistics | None = None
    ) -> tuple[Tensor, Carry]:
        """The part of the decoder at high resolution, which may be given a tile.

        Args:
            features: [T, C, y, x], a box of what `decode_low` gave; not changed.
            carry: Of this part and this tile.
            statistics: Whose norms are used; None for the tile's own.

        Returns:
            Frames [T', 3, 4*y, 4*x], not clipped, T' = 2*T, one less in the first slice; the next
            carry.
        """
        clip = features.movedim(0, 1).unsqueeze(0)
        return self._frames(self._high, clip, carry, statistics)

    def release(self) -> None:
        """Give the memory of the buffers back; the next slice takes it again."""
        for graph in self._graphs.values():
            graph.forget()
        self.workspace.release()

    def _frames(
        self,
        parts: Sequence[TilePart],
        clip: Tensor,
        carry: Carry,
        statistics: Statistics | None,
    ) -> tuple[Tensor, Carry]:
        if len(clip) != 1:
            raise ValueError("split decoding takes one clip at a time")
        working = carry.begin()
        with no_gradients(), exact_arithmetic(self.switches.fp16_accumulation):
            frames = self._run(parts, clip[0], working, statistics=statistics)
        return frames, working.done()

    def _clips(self, way: Way, clips: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """All clips [B, C, T, H, W] of a batch through encoder or decoder."""
        working = carry.begin()
        if working.tail((len(clips), f"{way}r.conv_in")) is not None:
            raise ValueError("the carry belongs to a larger batch")
        with no_gradients(), exact_arithmetic(self.switches.fp16_accumulation):
            results = [
                self._clip(way, clip, working, batch).movedim(0, 1)
                for batch, clip in enumerate(clips)
            ]
            found = results[0].unsqueeze(0) if len(results) == 1 else torch.stack(results)
        return found, working.done()

    def _clip(self, way: Way, clip: Tensor, carry: Carry, batch: int) -> Tensor:
        """One clip or slice of it; a short and small clip may be a recording."""
        graph = self._graphs.get(way)
        whole = carry.first and carry.last and self.trace is None
        if graph is None or not whole or self._pixels(way, clip) > _GRAPH_PIXELS:
            return self._run(self._parts[way], clip, carry, batch=batch)
        return graph(clip.to(self.device, self.dtype))

    def _pixels(self, way: Way, clip: Tensor) -> int:
        """Pixels of all frames, on the side of the frames."""
        count, height, width = clip.shape[1:]
        if way == "encode":
            return count * height * width
        count = 1 + (count - 1) * self.config.temporal_factor
        return count * height * width * self.config.spatial_factor**2

    def _graphed(self) -> dict[Way, GraphedCalls]:
        if self.device.type != "cuda":
            return {}

        def calls(way: Way) -> GraphedCalls:
            def work(clip: Tensor) -> Tensor:
                return self._run(self._parts[way], clip, Carry(last=True))

            return GraphedCalls(work, self.workspace.stretches)

        return {"encode": calls("encode"), "decode": calls("decode")}

    def _run(
        self,
        parts: Sequence[TilePart],
        clip: Tensor,
        carry: Carry,
        *,
        batch: int = 0,
        statistics: Statistics | None = None,
    ) -> Tensor:
        """[C, T, H, W] through the parts to frames [T, C, H, W]."""
        flow = TileFlow(
            carry=carry,
            workspace=self.workspace,
            switches=self.switches,
            statistics=statistics,
            trace=self._show if self.trace is not None and batch == 0 else None,
            batch=batch,
        )
        last = self.switches.channels_last
        layout = torch.channels_last if last else torch.contiguous_format
        frames = clip.movedim(0, 1).to(self.device, self.dtype)
        flow.put(frames.contiguous(memory_format=layout))
        for part in parts:
            part.run(flow)
        return flow.take()

    def _show(self, name: str, frames: Tensor) -> None:
        if self.trace is None:
            return
        frames = frames.clone(memory_format=torch.contiguous_format)
        whole = frames if ".attentions." in name else frames.movedim(0, 1).unsqueeze(0)
        self.trace(name, whole)


def _form(switches: VaeSwitches, device: torch.device, dtype: torch.dtype) -> Form:
    if switches.convolution != "auto":
        return switches.convolution
    if device.type == "cpu":
        return "3d" if dtype in (torch.float16, torch.bfloat16) else "2d"
    return choose_convolution(device, dtype).form
