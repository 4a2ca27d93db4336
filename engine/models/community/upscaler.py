"""A community model as a frame upscaler, and what it takes, measured without values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from inspect import unwrap
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.errors import NumericOverflow, WrongModel, memory_ran_out
from engine.core.geometry import Size
from engine.models.community.network import Recognised, recognised_file
from engine.models.community.plan import HALO, Growth, NetworkCall, NetworkCost
from engine.models.community.pretended import pretended
from engine.models.load import assign
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import WeightsPlan

_FIRST_SIDE = 64  # px, of the smallest frame that is measured
_FACTORS = 1, 2, 3, 4
_ALIKE = 0.02  # of a frame that a straight line may be off


class CommunityUpscaler:
    """A network of spandrel's on the device and in the dtype of a plan."""

    halo = HALO

    def __init__(
        self, model: Any, facts: NetworkFacts, call: NetworkCall, device: str = "cpu"
    ) -> None:
        self._facts, self._call = facts, call
        self._dtype = getattr(torch, call.dtype)
        layout = torch.channels_last if call.channels_last else torch.contiguous_format
        self._layout = layout
        _place(model.model.eval(), device, self._dtype, layout)
        # without the inference mode of its own, in which tensors without values know no operators
        self._network = partial(unwrap(type(model).__call__), model)

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return self._facts.scale

    def upscale(self, frames: Tensor) -> Tensor:
        """Enlarge frames [T, 3, h, w] float32 to [T, 3, scale*h, scale*w] float32, 0 to 1.

        Raises:
            NumericOverflow: The dtype is too narrow for the network.
            torch.OutOfMemoryError: The device refused.
        """
        is_one = self._call.batches or len(frames) == 1
        parts = [frames] if is_one else [frame[None] for frame in frames]
        with _same_noise(frames.device):
            results = [self._some(part) for part in parts]
        return results[0] if is_one else torch.cat(results)

    def _some(self, frames: Tensor) -> Tensor:
        """Frames that go through the network in one call."""
        inputs = frames.clamp(0, 1).to(self._dtype, memory_format=self._layout)
        if self._facts.inputs == 4:
            inputs = F.pad(inputs, (0, 0, 0, 0, 0, 1), value=1.0)  # opaque
        if self._facts.inputs == 1:  # each colour is a grey picture
            planes = [self._run(inputs[:, index : index + 1]) for index in range(3)]
            result = torch.cat(planes, 1)
        else:
            result = self._run(inputs)[:, :3]
        return self._checked(result).float().contiguous()

    def _run(self, inputs: Tensor) -> Tensor:
        """[n, c, h, w] to [n, c, scale*h, scale*w], 0 to 1; sides are extended as needed."""
        height, width = inputs.shape[-2:]
        result = self._network(inputs)
        return torch.as_tensor(result)[..., : height * self.scale, : width * self.scale]

    def _checked(self, result: Tensor) -> Tensor:
        if self._dtype is torch.float16 and bool(result.isnan().any()):
            raise NumericOverflow("community-model", dtype="float16")
        return result


@contextmanager
def _same_noise(device: torch.device) -> Iterator[None]:
    """Inside, networks that add noise add the same to every frame, in every run."""
    with torch.random.fork_rng([device.index or 0] if device.type == "cuda" else []):
        torch.manual_seed(0)
        yield


def _place(module: nn.Module, device: str, dtype: torch.dtype, layout: torch.memory_format) -> None:
    """Bring a network to a device, a dtype and a layout of pictures."""
    parts = (module.named_parameters, module.named_buffers)
    for name, value in list(chain(*(part(remove_duplicate=False) for part in parts))):
        kind = dtype if value.is_floating_point() else value.dtype
        form = layout if value.dim() == 4 else torch.preserve_format
        assign(module, name, value.detach().to(device, kind, memory_format=form))


@lru_cache(maxsize=8)
def measured(weights: WeightsPlan, *, half: bool) -> tuple[NetworkFacts, NetworkCall, NetworkCost]:
    """What a network states, how it is called, and what a frame takes.

    Frames without values show it: of four sizes, and two frames in one call. `measured_at` adds
    others, where these four lie on no line.

    Args:
        weights: The file.
        half: In float16, if the network takes that.

    Raises:
        WrongModel: It computes none of the frames.
        WeightsError: As `recognised_file`.
    """
    found = recognised_file(weights)
    dtype = "float16" if half and found.facts.takes_half else "float32"
    for channels_last in (True, False):
        call = NetworkCall(dtype=dtype, channels_last=channels_last)
        found.mode.cache_enabled = channels_last  # it may mix up what has values and what has none
        try:
            cost = _cost(found, call)
        except Exception as err:  # networks refuse a frame, or how it lies, with any class
            if memory_ran_out(err):
                raise
            failure = err
        else:
            return found.facts, replace(call, batches=_takes_batches(found, call)), cost
    about = {"name": weights.path.name, "path": str(weights.path)}
    raise WrongModel("does-not-run", architecture=found.facts.architecture, **about) from failure


def _side(facts: NetworkFacts) -> int:
    return facts.extended(Size(_FIRST_SIDE, _FIRST_SIDE)).width


def _cost(found: Recognised, call: NetworkCall) -> NetworkCost:
    """By frames of growing size."""
    with pretended(found.mode):
        upscaler = CommunityUpscaler(found.model, found.facts, call)
    side = _side(found.facts)
    pixels, peaks, operations = [], [], []
    for factor in _FACTORS:
        size = Size(factor * side, factor * side)
        peak, count = _taken(found, upscaler, size)
        pixels.append(size.pixels)
        peaks.append(peak)
        operations.append(count)
    weights = sum(tensor.nbytes for tensor in found.model.model.state_dict().values())
    return NetworkCost(
        weights=weights, working=growth(pixels, peaks), operations=growth(pixels, operations)
    )


@lru_cache(maxsize=64)
def measured_at(weights: WeightsPlan, call: NetworkCall, size: Size) -> tuple[int, int] | None:
    """Bytes and operations of a frame of one size, without values; None where it does not run.

    For networks whose cost bends: some cut a frame by the logarithm of its sides, so no curve
    through smaller ones tells it.

    Raises:
        WeightsError: As `recognised_file`.
    """
    found = recognised_file(weights)
    try:
        with pretended(found.mode):
            upscaler = CommunityUpscaler(found.model, found.facts, call)
        return _taken(found, upscaler, size)
    except Exception as err:  # networks refuse a frame with any class
        if memory_ran_out(err):
            raise
        return None


def _taken(found: Recognised, upscaler: CommunityUpscaler, size: Size) -> tuple[int, int]:
    """Most bytes at once, and operations, of one frame."""
    with pretended(found.mode) as meter:
        frame = torch.empty(1, 3, size.height, size.width)
        before = meter.now
        upscaler.upscale(frame)
    return meter.peak - before, meter.operations


def _takes_batches(found: Recognised, call: NetworkCall) -> bool:
    side = _side(found.facts)
    try:
        with pretended(found.mode):
            upscaler = CommunityUpscaler(found.model, found.facts, replace(call, batches=True))
            return len(upscaler.upscale(torch.empty(2, 3, side, side))) == 2
    except Exception as err:  # networks of one frame meet a second one with any class
        if memory_ran_out(err):
            raise
        return False


def growth(pixels: Sequence[int], values: Sequence[float]) -> Growth:
    """Measured values, and beyond them a curve through the last three, or their line."""
    (a, b, c), (u, v, w) = pixels[-3:], values[-3:]
    known = tuple(pixels), tuple(values)
    first, last = (v - u) / (b - a), (w - v) / (c - b)
    square = (last - first) / (c - a)
    if square <= 0 or abs(w - (u + (c - a) * first)) <= _ALIKE * w:
        each = (w - u) / (c - a)
        return Growth(max(0.0, w - each * c), each, 0.0, *known)
    each = first - square * (a + b)
    return Growth(u - each * a - square * a * a, each, square, *known)
