"""Measures what a fast variant takes: it runs on tensors without values, at any size.

Bytes are those of tensors, in the order in which the program takes and frees them, and those that
libraries take inside of operators (`Meter._inside`), which no tensor shows.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from threading import RLock
from typing import Any, Self, get_args

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from engine.core.geometry import Size
from engine.models.load import shapes_alone
from engine.models.video_vae.vae_use import (
    FIGURES,
    SLICES,
    CallMemory,
    Piece,
    Side,
    Terms,
    UseMemory,
    VaeCode,
    VaeUse,
)
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.temporal_conv import adds_in_place
from engine.ops.kernels.build import VALUELESS
from engine.settings.optimisations import Convolution

_aten = torch.ops.aten
_CONVOLUTION = _aten.convolution.default
_ADDED = torch.ops.mkldnn._convolution_pointwise_.binary  # into its first argument
_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default
_SMALL_BYTES = 64 * 2**10  # means, deviations, biases, and what allocators round up
_KEYS = 512  # of a block of torch's attention on a CPU


class Sized(torch.Tensor):
    """A tensor that says it is on a device and has no values; `held`, on meta, has its layout."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor, device: torch.device) -> Sized:
        """Wrap a tensor of meta."""
        made: Sized = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=device,
        )
        made.held = held
        return made

    __torch_function__: Any = torch._C._disabled_torch_function_impl

    def data_ptr(self) -> int:
        """An address that is aligned as those of allocators are."""
        return int(self.held.storage_offset()) * self.held.element_size()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as torch calls it
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{func} of tensors without values, outside of their meter")


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts bytes and operations of what runs inside; all of it is on one device.

    Attributes:
        device: VALUELESS stands for a GPU.
        now: Bytes of tensors that were made inside and still exist.
        peak: Most of them at once; may be set to begin again.
        convolutions, products: Floating-point operations; a multiply-add is two.
    """

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.device = VALUELESS if device == "cuda" else torch.device(device)
        self.now = self.peak = self.convolutions = self.products = 0
        self._known: dict[weakref.ref[Any], int] = {}  # storages that exist, and their bytes
        self._shapes: dict[Any, list[tuple[torch.Size, tuple[int, ...], torch.dtype]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # it would be loaded for that

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if _is_view(func) and not kwargs and isinstance(args[0], Sized):  # two of three operators
            return Sized(func(args[0].held, *args[1:]), self.device)
        wrappers: dict[int, Tensor] = {}
        held = _held(args, wrappers)
        named: dict[str, Any] = {}
        if kwargs:
            named = dict(zip(kwargs, _held([*kwargs.values()], wrappers), strict=True))
        if named.get("device") is not None:
            named["device"] = VALUELESS
        if func is _ADDED:
            self.convolutions += 2 * held[0].numel() * held[2][0].numel()
            result, held = held[0], held[1:]
        elif func is _ATTENTION:
            q, k = held[:2]
            self.products += 4 * q.numel() * k.shape[-2]
            result = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
        else:
            result = self._result(func, held, named)
            count = flop_registry.get(func.overloadpacket)
            if count is not None:
                found = int(count(*held, **named, out_val=result))
                if func is _CONVOLUTION:
                    self.convolutions += found
                    result = result.contiguous(memory_format=_layout(*held[:2]))
                else:
                    self.products += found
        if isinstance(result, Tensor):
            made: Any = wrappers.get(id(result))
            made = self.wrapped(result) if made is None else made
        elif isinstance(result, (tuple, list)):
            made = [self.wrapped(x) if isinstance(x, Tensor) else x for x in result]
        else:
            made = result
        self.peak = max(self.peak, self.now + self._inside(func, held))
        return made

    def _result(self, func: Any, held: Any, named: dict[str, Any]) -> Any:
        """Result of an operator on meta; torch finds its shape in Python, so that it is kept."""
        writes, shares, returns = _effect_of(func)
        if writes:
            into = named["out"] if "out" in named else held[0]
            if isinstance(into, Tensor) and into.numel():  # torch sizes an empty one
                return into
        if shares:
            return func(*held, **named)
        key = func, _shape_of(held), _shape_of(tuple(named.items()))
        known = self._shapes.get(key)
        if known is not None:
            made = [
                torch.empty_strided(*sizes, dtype=dtype, device=VALUELESS)
                for *sizes, dtype in known
            ]
            return made[0] if returns == 1 else made
        result = func(*held, **named)
        results = (result,) if returns == 1 else result
        if all(isinstance(one, Tensor) for one in results):
            self._shapes[key] = [(one.shape, one.stride(), one.dtype) for one in results]
        return result

    def wrapped(self, held: Tensor) -> Sized:
        """A tensor of meta as one of the device, counted as long as its memory exists."""
        storage = held.untyped_storage()
        known = weakref.ref(storage, self._remove)  # equal to others of the same storage
        if known not in self._known:
            self._known[known] = storage.nbytes()
            self.now += self._known[known]
        return Sized(held, self.device)

    def _inside(self, func: Any, args: Any) -> int:
        """Bytes that a library takes for as long as an operator runs.

        Convolutions reorder their weights, and frames that do not lie channels last; torch's
        attention on a CPU goes through blocks of queries and keys.
        """
        if func is _CONVOLUTION or func is _ADDED:
            frames, weight = args[:2]
            last = torch.channels_last if frames.dim() == 4 else torch.channels_last_3d
            scattered = not frames.is_contiguous(memory_format=last)
            copied = not weight.is_contiguous(memory_format=last)
            return int(weight.nbytes * (1 + copied) + frames.nbytes * scattered)
        if func is _ATTENTION:
            tokens, channels = args[0].shape[-2:]
            queries = 256 if tokens >= 768 else 64 if tokens >= 192 else 32
            item = args[0].element_size()
            return int(queries * ((4 + item % 4) * _KEYS + 4 * (channels + 2)))
        return 0

    def _remove(self, known: weakref.ref[Any]) -> None:
        self.now -= self._known.pop(known)


@cache
def _effect_of(func: Any) -> tuple[bool, bool, int]:
    """Whether an operator writes its result into an argument, changes or shares any; results."""
    returns = func._schema.returns
    alias = returns[0].alias_info if len(returns) == 1 else None
    writes = alias is not None and alias.is_write and torch.Tag.inplace_view not in func.tags
    shares = func._schema.is_mutable or any(one.alias_info is not None for one in returns)
    return writes, shares, len(returns)


@cache
def _is_view(func: Any) -> bool:
    """Whether an operator makes one tensor, which shows the memory of its only tensor argument."""
    (given, *others), returns = func._schema.arguments or (None,), func._schema.returns
    if func._schema.is_mutable or len(returns) != 1 or str(returns[0].type) != "Tensor":
        return False
    is_shared = given is not None and given.alias_info is not None
    return is_shared and not any("Tensor" in str(other.type) for other in others)


def _layout(frames: Tensor, weight: Tensor) -> torch.memory_format:
    """Layout of the result of a convolution: channels last where either suggests it."""
    last = torch.channels_last if frames.dim() == 4 else torch.channels_last_3d
    is_last = last in (suggest_memory_format(frames), suggest_memory_format(weight))
    return last if is_last and frames.dtype != torch.float64 else torch.contiguous_format


def _shape_of(value: Any) -> Any:
    """Arguments as a key of results: tensors by shape, strides and dtype."""
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype
    return tuple(map(_shape_of, value)) if isinstance(value, (tuple, list)) else value


def _held(values: Any, wrappers: dict[int, Tensor]) -> Any:
    """Arguments without their wrappers, which are filed by the identity of what they hold."""
    found = []
    for one in values:
        if isinstance(one, Sized):
            wrappers[id(one.held)] = one
            found.append(one.held)
        else:
            found.append(_held(one, wrappers) if isinstance(one, (tuple, list)) else one)
    return type(values)(found)


@contextmanager
def without_values(meter: Meter) -> Iterator[None]:
    """Inside, new tensors are on the device of a meter and have no values."""
    adds_in_place(meter.device.type, torch.float32)  # tried on values, once
    with torch.inference_mode(False), torch.no_grad(), meter:
        yield


# --- calls of a VAE

_ONE_AT_A_TIME = RLock()  # a VAE that is measured has one meter


class Valueless:
    """A fast variant without values, and its meter. Used inside `with`, as often as wanted.

    Args:
        vae: Its family.
        config: Its sizes.
        use: Use of the VAE.
        form: Form on a GPU where trials choose it: the one that takes the most.
    """

    def __init__(self, vae: VaeCode, config: Any, use: VaeUse, form: Convolution = "2d") -> None:
        self._vae, self._config, self._use = vae, config, use
        self.dtype: torch.dtype = getattr(torch, use.dtype)

        switches = use.switches
        if switches.compile:  # norms then take a frame, as they do without kernels
            switches = replace(switches, compile=False, kernels=False)
        if use.device == "cuda" and switches.convolution in ("auto", "kernel"):
            switches = replace(switches, convolution=form)
        with shapes_alone():
            weights = vae.loader.plain(config).state_dict()
        self.meter = Meter(use.device)
        options = {"device": self.meter.device, "dtype": self.dtype, "switches": switches}
        with self:
            given = {name: self.meter.wrapped(value) for name, value in weights.items()}
            del weights
            self.fast = vae.loader.fast(config, given, **options)
            del given

    def __enter__(self) -> Self:
        """Enter its meter."""
        self._stack = ExitStack()
        self._stack.enter_context(without_values(self.meter))
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the meter."""
        self._stack.close()

    def slices(self, call: str, size: Size) -> dict[str, int]:
        """Memory of slices of a clip of some size while they go through a call, see `VaePeak`.

        And the operations of each of `SLICES`, of convolutions and of products.
        """
        piece, meter = self._vae.pieces(self._config, self._use.slice_frames)[call], self.meter
        step, carry, result = getattr(self.fast, call), Carry(), None
        if self._use.is_image:  # a first one leaves tables behind on a CPU
            step(self.given(piece, size, piece.single), Carry(last=True))
        self.fast.release()
        steps = [piece.single] if self._use.is_image else [piece.first, piece.later, piece.later]
        start, peaks, opens = meter.now, list[int](), 0
        counts = list[tuple[int, int]]()
        for count in steps:
            given = self.given(piece, size, count)
            meter.peak, before = meter.now, (meter.convolutions, meter.products)
            carry = carry.handed_over(last=self._use.is_image)
            found, carry = step(given, carry)
            peaks.append(meter.peak - start - given.nbytes + self.compiled_bytes + _SMALL_BYTES)
            counts.append((meter.convolutions - before[0], meter.products - before[1]))
            result = found
            del found, given
            opens = opens or self.fast.workspace.bytes_held
        figures = {
            "first": peaks[0],
            "later": max(peaks[1:], default=0),
            "carry": carry.bytes_held,
            "window": self.fast.workspace.bytes_held,
            "opens": opens,
            "result": result.nbytes if result is not None else 0,
        }
        before = meter.convolutions, meter.products
        step(self.given(piece, size, piece.single), Carry(last=True))
        counts.insert(0, (meter.convolutions - before[0], meter.products - before[1]))
        for name, (convolutions, products) in zip(SLICES, counts, strict=False):
            figures |= {f"{name} convolutions": convolutions, f"{name} products": products}
        return figures

    def given(self, piece: Piece, size: Size, steps: int) -> Tensor:
        """Input of a call."""
        height, width = size.height // piece.factor, size.width // piece.factor
        if piece.is_clip:
            return torch.empty(1, piece.channels, steps, height, width, dtype=self.dtype)
        shape = (steps, piece.channels, height, width)
        return torch.empty(shape, dtype=self.dtype, memory_format=torch.channels_last)

    @property
    def compiled_bytes(self) -> int:
        """Bytes that a compiled norm takes at most on a CPU: a frame in float32."""
        if not self._use.switches.compile or self._use.device != "cpu":
            return 0
        window = self.fast.workspace.bytes_held
        exact = max(4, self.dtype.itemsize) // self.dtype.itemsize
        return int(window * exact // (self._use.slice_frames + 2))


def measure(vae: VaeCode, config: Any, use: VaeUse, sides: Sequence[int]) -> UseMemory:
    """Measures all calls of a VAE in one use on square frames of some sides."""
    names = vae.pieces(config, use.slice_frames)
    calls = {name: measure_call(vae, config, use, name, tuple(sides)) for name in names}
    return UseMemory(measure_weights(vae, config, use), calls)


def measure_call(
    vae: VaeCode, config: Any, use: VaeUse, call: str, sides: Sequence[int]
) -> CallMemory:
    """Measures one call on square frames of two sides or more."""
    points = [_point(vae, config, use, call, side) for side in sides]
    curves = {name: tuple(zip(sides, (p[name] for p in points), strict=True)) for name in FIGURES}
    names = SLICES[:2] if use.is_image else SLICES
    operations = {name: _terms(sides, points, name) for name in names}
    return CallMemory(bytes_of=curves, operations=operations)


def measure_weights(vae: VaeCode, config: Any, use: VaeUse) -> int:
    """Bytes that stay when a VAE is loaded, see `UseMemory`."""
    with _ONE_AT_A_TIME, Valueless(vae, config, use) as measured:
        if use.is_image:
            for side in get_args(Side):
                measured.slices(f"{side}_slice", Size(64, 64))
            measured.fast.release()
        return measured.meter.now


@lru_cache(maxsize=4096)
def _point(vae: VaeCode, config: Any, use: VaeUse, call: str, side: int) -> Mapping[str, int]:
    """Figures of a call on square frames of one side; the larger ones where trials may choose."""
    with _ONE_AT_A_TIME, _built(vae, config, use) as measured:
        found = measured.slices(call, Size(side, side))
    if use.device == "cuda" and use.switches.temporal_winograd:
        usual = replace(use, switches=replace(use.switches, temporal_winograd=False))
        other = _point(vae, config, usual, call, side)
        found |= {name: max(found[name], other[name]) for name in FIGURES}
    return found


@lru_cache(maxsize=4)
def _built(vae: VaeCode, config: Any, use: VaeUse) -> Valueless:
    return Valueless(vae, config, use)


def _terms(sides: Sequence[int], points: Sequence[Mapping[str, int]], name: str) -> Terms:
    """Operations of one of `SLICES` as `CallMemory` has them, from the two largest frames."""
    less, more = sides[-2:]
    some, most = (points[at][f"{name} convolutions"] for at in (-2, -1))
    area = (most / more - some / less) / (more - less)
    edge = (most / more - area * more) / 2
    some, most = (points[at][f"{name} products"] for at in (-2, -1))
    squared = (most / more**2 - some / less**2) / (more**2 - less**2)
    return area, edge, most / more**2 - squared * more**2, squared


@dataclass(frozen=True, slots=True)
class ClipUse:
    """Memory of one direction of a clip, its results joined.

    Attributes:
        peak_bytes: Most bytes at once, without weights and without what it is given.
        convolutions, products: Floating-point operations.
    """

    peak_bytes: int
    convolutions: int
    products: int

    @property
    def operations(self) -> int:
        """All operations."""
        return self.convolutions + self.products


@lru_cache(maxsize=4096)
def clip_use(
    vae: VaeCode,
    config: Any,
    use: VaeUse,
    side: Side,
    size: Size,
    frames: int,
    *,
    whole: bool = False,
) -> ClipUse:
    """Memory of one direction of a clip.

    Args:
        vae: Its family.
        config: Sizes of the VAE.
        use: Use of the VAE.
        side: The direction.
        size: Size of frames that are or could be encoded, px.
        frames: 1 + n * temporal_factor.
        whole: The clip goes through at once, not in slices.
    """
    with _ONE_AT_A_TIME, _built(vae, config, use) as measured:
        fast, meter = measured.fast, measured.meter
        fast.disable_slicing() if whole else fast.enable_slicing(use.slice_frames)
        steps = frames if side == "encode" else 1 + (frames - 1) // config.temporal_factor
        given = measured.given(vae.pieces(config, use.slice_frames)[f"{side}_slice"], size, steps)
        run = fast.posterior if side == "encode" else fast.decode
        if frames == 1:  # a first image leaves tables behind on a CPU
            run(given)
        fast.release()
        start = meter.peak = meter.now
        before = meter.convolutions, meter.products
        result = run(given)
        peak = meter.peak - start + measured.compiled_bytes + _SMALL_BYTES
        del result
        return ClipUse(peak, meter.convolutions - before[0], meter.products - before[1])
