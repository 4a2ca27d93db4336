"""A community model as a frame upscaler, and what it takes, measured without values."""

from __future__ import annotations

from collections.abc import Iterator
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
from engine.models.community.plan import HALO, CommunityPlan, NetworkCall, NetworkCost
from engine.models.community.pretended import Meter, pretended
from engine.models.load import assign
from engine.ops.resize import with_beyond
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import WeightsPlan

_SMALL_SIDE = 64  # px, of frames that show how a network is called
_PARTS_SIDES = (128, 256, 384)  # px, of frames that show whether a network loops over parts


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

    def upscale(self, frames: Tensor, *near: Tensor) -> Tensor:
        """Enlarge frames [T, 3, h, w] to [T, 3, scale*h, scale*w], float32, nominally 0 to 1.

        The network takes and gives 0 to 1; what the frames hold beyond is enlarged without it.

        Raises:
            NumericOverflow: The dtype is too narrow for the network.
            torch.OutOfMemoryError: The device refused.
        """
        return with_beyond(self.inside(frames), frames)

    def inside(self, frames: Tensor) -> Tensor:
        """Enlarge the part of frames that lies between 0 and 1; see `upscale`."""
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
def called(weights: WeightsPlan, *, half: bool) -> tuple[NetworkFacts, NetworkCall]:
    """Facts of a network, and its form of call; small frames without values show it.

    Args:
        weights: The file.
        half: In float16, if the network takes that.

    Raises:
        WrongModel: It computes none of the frames.
        WeightsError: Raised by `recognised_file`.
    """
    found = recognised_file(weights)
    dtype = "float16" if half and found.facts.takes_half else "float32"
    small = found.facts.extended(Size(_SMALL_SIDE, _SMALL_SIDE))
    for channels_last in (True, False):
        call = NetworkCall(dtype=dtype, channels_last=channels_last)
        try:
            cost_of(weights, call, small)
        except WrongModel as err:
            failure = err
        else:
            return found.facts, replace(call, batches=_takes_batches(found, call, small))
    raise failure


@lru_cache(maxsize=64)
def cost_of(weights: WeightsPlan, call: NetworkCall, size: Size) -> NetworkCost:
    """Cost of a frame of one size, computed without values.

    It is measured for every size, since smaller frames do not tell it: some networks cut a frame
    by the logarithm of its sides, and attention shows its square late.

    Raises:
        WrongModel: The network does not compute such a frame.
        WeightsError: Raised by `recognised_file`.
    """
    found = recognised_file(weights)
    few, many = (found.facts.extended(Size(side, side)) for side in _PARTS_SIDES[1:])
    if size.pixels > many.pixels and _loops(weights, call):
        further = (size.pixels - many.pixels) / (many.pixels - few.pixels)
        less, more = (_metered(weights, call, one) for one in (few, many))
        peak = more.peak + further * (more.peak - less.peak)
        operations = more.operations + further * (more.operations - less.operations)
    else:
        meter = _metered(weights, call, size)
        peak, operations = meter.peak, meter.operations
    return NetworkCost(
        weights=sum(tensor.nbytes for tensor in found.model.model.state_dict().values()),
        working=round(peak),
        operations=round(operations),
    )


@lru_cache(maxsize=8)
def _loops(weights: WeightsPlan, call: NetworkCall) -> bool:
    """Whether it takes a frame part by part: minutes for a large one, for what grows in a line."""
    facts = recognised_file(weights).facts
    sizes = (facts.extended(Size(side, side)) for side in _PARTS_SIDES[:2])
    few, many = (_metered(weights, call, size).calls for size in sizes)
    return many > 1.1 * few


def _metered(weights: WeightsPlan, call: NetworkCall, size: Size) -> Meter:
    """Bytes of one frame besides the network and itself."""
    found = recognised_file(weights)
    # the cache of the mode may mix up what has values and what has none
    found.mode.cache_enabled = call.channels_last
    try:
        with pretended(found.mode):
            upscaler = CommunityUpscaler(found.model, found.facts, call)
            frame = torch.empty(1, 3, size.height, size.width)
        with pretended(found.mode) as meter:
            upscaler.inside(frame)
    except Exception as err:  # networks refuse a frame, or how it lies, with any class
        if memory_ran_out(err):
            raise
        about = {"name": weights.name, "path": str(weights.path)}
        raise WrongModel("does-not-run", architecture=found.facts.architecture, **about) from err
    return meter


def with_cost(plan: CommunityPlan) -> CommunityPlan:
    """Plan with the cost of its exact tile.

    Raises:
        WrongModel, WeightsError: Raised by `cost_of`.
    """
    return replace(plan, cost=cost_of(plan.weights, plan.call, plan.network.extended(plan.tile)))


def _takes_batches(found: Recognised, call: NetworkCall, small: Size) -> bool:
    try:
        with pretended(found.mode):
            upscaler = CommunityUpscaler(found.model, found.facts, replace(call, batches=True))
            return len(upscaler.inside(torch.empty(2, 3, small.height, small.width))) == 2
    except Exception as err:  # networks of one frame meet a second one with any class
        if memory_ran_out(err):
            raise
        return False
