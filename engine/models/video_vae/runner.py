"""The fast variant of a video VAE: clips of a batch through lists of parts, one after the other."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Generic, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from engine.hardware.stage_meter import end_part
from engine.models.load import shapes_alone
from engine.models.video_vae.builder import Builder, Table
from engine.models.video_vae.layers import Mark
from engine.models.video_vae.slice_context import Part, SliceContext, Trace
from engine.models.video_vae.slicing import ClipSizes, SlicedVae, clamp_logvar
from engine.ops.compiler import require_compiler
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.frame_conv import ConvOptions
from engine.ops.conv.workspace import Workspace
from engine.ops.precision import exact_arithmetic, no_gradients
from engine.settings.optimisations import Convolution, VaeSwitches

Direction = Literal["encode", "decode"]
Parts = dict[Direction, list[Part]]
AnyPlain = TypeVar("AnyPlain", bound=nn.Module)
AnyConfig = TypeVar("AnyConfig", bound=ClipSizes)


@lru_cache(maxsize=4)  # to make one takes as long as all parts of a fast variant
def _structure(plain_type: Callable[[AnyConfig], AnyPlain], config: AnyConfig) -> AnyPlain:
    """The plain variant on meta, which is only read."""
    with shapes_alone():
        return plain_type(config)


class FastSlicedVae(SlicedVae, Generic[AnyPlain, AnyConfig]):
    """Makes and runs the parts of a fast variant; a family says which plain modules become which.

    Inference only. Not for several threads or streams at once, which need a form each (`apart`):
    all parts share one workspace.

    Args:
        config: Sizes of the model.
        weights: Published name -> tensor; read one at a time.
        device: Device to work on.
        dtype: Type of activations and convolutions; norms are computed in float32 (float64).
        switches: Which optimisations to use; None: the usual ones.

    Raises:
        FeatureMissing: `switches.compile` is on, and torch cannot compile for the device.

    Attributes:
        config: Sizes of the model.
        plain_type: Class of the plain variant.
        table: Maps classes of its modules to functions that make their parts.
        parts: Parts of encoder and decoder.
        trace: Called with the module path and a copy of the result of each part,
            [1, C, T, H, W], of the first clip of a batch.
    """

    config: AnyConfig
    plain_type: type[AnyPlain]
    table: ClassVar[Table]

    def __init__(
        self,
        config: AnyConfig,
        weights: Mapping[str, Tensor],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        switches: VaeSwitches | None = None,
    ) -> None:
        self.config = config
        self.device, self.dtype = torch.device(device), dtype
        self.switches = switches = switches or VaeSwitches()
        if switches.compile:
            require_compiler(self.device)
        self.trace: Trace | None = None
        self._begun: set[Direction] = set()  # directions that have begun a clip
        self.workspace = self._buffers()
        with no_gradients(), exact_arithmetic():
            plain = _structure(self.plain_type, config)  # type: ignore[arg-type]  # mypy: no class is Hashable
            build = Builder(
                plain,
                self.table,
                weights,
                device=self.device,
                options=self.conv_options(),
                switches=switches,
            )
            self.parts = self.build_parts(build, plain)

    @abstractmethod
    def build_parts(self, build: Builder, plain: AnyPlain) -> Parts:
        """The parts of encoder and decoder; everything else is set when this is called."""

    @classmethod
    def of(cls, vae: SlicedVae) -> Self:
        """A VAE whose parts can be given tiles.

        Raises:
            ValueError: It is not of this variant; an error in the caller.
        """
        if not isinstance(vae, cls):
            raise ValueError("only the fast variant works in tiles")
        return vae

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice; see `SlicedVae`."""
        found, carry = self.run_clips("encode", frames, carry)
        return clamp_logvar(found) if self.has_variance else found, carry

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Decode one slice; see `SlicedVae`."""
        return self.run_clips("decode", latent, carry)

    def conv_options(self) -> ConvOptions:
        """Ways in which the convolutions are computed."""
        return ConvOptions(
            dtype=self.dtype,
            form=_form(self.switches, self.device, self.dtype),
            fold=self.switches.first_frame_fold or self.switches.image_mode,
            winograd=self.switches.temporal_winograd,
            kernels=self.switches.kernels and self.switches.channels_last,
            fp16_sums=self.switches.fp16_sums,
        )

    def release(self) -> None:
        """Give the memory of the buffers back; the next slice takes it again."""
        self.workspace.release()

    def apart(self, count: int) -> list[Self]:
        """The VAE as often as it is to work at a time, on the same weights.

        Args:
            count: 1 gives this form itself. Of several each has buffers of its own, which last as
                long as it does; those of this form are given back.
        """
        if count == 1:
            return [self]
        self.release()
        others = [copy.copy(self) for _ in range(count)]
        for other in others:
            other.workspace = self._buffers()
        return others

    def run_clips(self, direction: Direction, clips: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode or decode one slice [B, C, T, H, W] of all clips of a batch.

        The beginning of a clip has shapes of its own, which cuDNN measures from the second clip
        on: for a single one it would take longer than it saves.
        """
        working = carry.begin()
        if any(isinstance(key, tuple) and key[0] >= len(clips) for key in working.keys):
            raise ValueError("the carry belongs to a larger batch")
        tunes = direction in self._begun or not working.first
        self._begun.add(direction)
        with no_gradients(), exact_arithmetic(tunes=tunes):
            results = [
                self._clip(direction, clip, working, batch).movedim(0, 1)
                for batch, clip in enumerate(clips)
            ]
            found = results[0].unsqueeze(0) if len(results) == 1 else torch.stack(results)
        return found, working.done()

    def run_frames(
        self, parts: Sequence[Part], frames: Tensor, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """One slice of frames [T, C, H, W] through some parts; the frames are not changed."""
        context = self.context_of(frames, carry.begin())
        if context.stream is not None and context.stream.data_ptr() == frames.data_ptr():
            context.stream = context.stream.clone()
        return self.run_parts(parts, context)

    def run_parts(self, parts: Sequence[Part], context: SliceContext) -> tuple[Tensor, Carry]:
        """Run some parts on a context; the frames that come out, and the next carry."""
        with no_gradients(), exact_arithmetic():
            result = _through(parts, context)
        return result, context.carry.done()

    def context_of(self, frames: Tensor, carry: Carry, batch: int = 0) -> SliceContext:
        """Context of frames [T, C, H, W], in the layout of the parts, with a working carry."""
        last = self.switches.channels_last
        layout = torch.channels_last if last else torch.contiguous_format
        with no_gradients():
            stream = frames.to(self.device, self.dtype).contiguous(memory_format=layout)
        return SliceContext(
            carry=carry,
            workspace=self.workspace,
            switches=self.switches,
            trace=self.show if self.trace is not None and batch == 0 else None,
            stream=stream,
            batch=batch,
        )

    def show(self, name: str, frames: Tensor) -> None:
        """Pass a copy of the result of a part to the observer."""
        if self.trace is not None:
            frames = frames.clone(memory_format=torch.contiguous_format)
            self.trace(name, frames.movedim(0, 1).unsqueeze(0))

    def _buffers(self) -> Workspace:
        return Workspace(
            self.device,
            self.dtype,
            planned=self.switches.planned_buffers,
            channels_last=self.switches.channels_last,
        )

    def _clip(self, direction: Direction, clip: Tensor, carry: Carry, batch: int) -> Tensor:
        """One clip or slice [C, T, H, W] through all parts."""
        context = self.context_of(clip.movedim(0, 1), carry, batch)
        return _through(self.parts[direction], context)


def _through(parts: Sequence[Part], context: SliceContext) -> Tensor:
    for part in parts:
        part.run(context)
        if not isinstance(part, Mark):
            end_part(part.name)
    return context.take()


def _form(switches: VaeSwitches, device: torch.device, dtype: torch.dtype) -> Convolution:
    """Form of convolutions: one for all layers on a CPU; on a GPU a trial decides."""
    if switches.convolution != "auto" or device.type != "cpu":
        return switches.convolution
    return "3d" if dtype in (torch.float16, torch.bfloat16) else "2d"
