"""Our kernels by their meaning, in torch: they read and write where the program's arguments point.

They stand in for a compiled module, so everything up to the launch is the program's own: grids,
checks, and the arguments as the driver takes them. The same sources run on the processor, thread by
thread, in `tests/engine/ops/kernels`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.kernels.driver import Argument, Size3
from engine.ops.kernels.quantize import rotation, times_powers
from tests.pretended_gpu.gpu import PretendedGpu

Grid = tuple[Size3, Size3, int]
_MOST_SHARED = 64 * 1024  # of the GPUs with the least, sm_75
_MOST_THREADS = 1024


class PretendedModule:
    """Stands in for `driver.Module`.

    Args:
        gpu: Whose memory it works on.
        name: Of the source.
        options: Macros, as NVRTC gets them.
    """

    def __init__(self, gpu: PretendedGpu, name: str, options: tuple[str, ...]) -> None:
        self.gpu = gpu
        macros = dict(option.removeprefix("-D").partition("=")[::2] for option in options)
        (scalar,) = (key.removeprefix("SCALAR_") for key in macros if key.startswith("SCALAR_"))
        self.dtype: torch.dtype = getattr(torch, scalar.lower())
        self.macros = {key: int(value) for key, value in macros.items() if value}

    def launch(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        """Do what the kernel does, on the current stream."""
        blocks, threads, shared = grid
        assert shared <= _MOST_SHARED, f"{name}: {shared} bytes of shared memory"
        assert threads[0] * threads[1] * threads[2] <= _MOST_THREADS, f"{name}: {threads}"
        assert all(0 < count < 2**31 for count in blocks), f"{name}: {blocks}"
        assert max(blocks[1:]) <= 65_535, f"{name}: {blocks}"
        launch = Launch(self, grid)
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            _KERNELS[name](launch, *map(_value, arguments))
        self.gpu.launch(f"kernel {name}", launch.reads, launch.writes)

    def sums(self, clip: Tensor, weight: Tensor, strides: tuple[int, int], zeros: int) -> Tensor:
        """Convolution of a clip, exact.

        Args:
            clip: [T, C, H, W] float64 with its past and its margins.
            weight: [O, C, K, kh, kw] float64.
            strides: Over time and over space.
            zeros: First frames of the clip, which are zeros.

        Returns:
            [T', O, H', W'].
        """
        over_time, over_space = strides
        steps = over_time, over_space, over_space
        return F.conv3d(clip.movedim(0, 1)[None], weight, stride=steps)[0].movedim(1, 0)


class Launch:
    """One launch: the memory that it reads and writes.

    Attributes:
        share: Share of tensors that counts, where other launches have the rest.
    """

    def __init__(self, module: PretendedModule, grid: Grid) -> None:
        self.module, self.gpu, self.grid = module, module.gpu, grid
        self.has_values, self.share = module.gpu.has_values, 1.0
        self.reads: list[tuple[int, int]] = []
        self.writes: list[tuple[int, int]] = []

    def tensor(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        *,
        is_written: bool = False,
    ) -> Tensor:
        """What a pointer points to; strides count elements, None: contiguous."""
        memory, offset = self.gpu.at(address)
        device = torch.device("cpu" if self.has_values else "meta")
        first, rest = divmod(offset, dtype.itemsize)
        assert rest == 0
        if strides is None:
            strides = torch.empty(tuple(shape), device="meta").stride()
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        room = memory.storage.nbytes() // dtype.itemsize
        assert first + last < room, f"a kernel goes beyond its memory: {first} + {last} of {room}"
        found = torch.empty(0, dtype=dtype, device=device)
        found.set_(memory.storage, first, tuple(shape), tuple(strides))
        part = memory.storage._cdata, int(found.numel() * dtype.itemsize * self.share)
        (self.writes if is_written else self.reads).append(part)
        return found

    def frames(self, address: int, strides: Any, shape: Any, *, is_written: bool = False) -> Tensor:
        """Channels-last frames [T, H, W, C] of the module's scalar type."""
        sizes = self.grid[0][1], shape.pixels // shape.width, shape.width, shape.channels
        steps = strides.t, strides.y, strides.x, 1
        return self.tensor(address, sizes, steps, self.module.dtype, is_written=is_written)

    def strided(self, frames: Any, shape: Sequence[int], *, is_written: bool = True) -> Tensor:
        """Channels-last frames [T, H, W, C] with an address and strides of their own."""
        steps = frames.at.t, frames.at.y, frames.at.x, 1
        dtype = self.module.dtype
        return self.tensor(frames.first, shape, steps, dtype, is_written=is_written)

    def frame_pair(
        self, x: int, x_strides: Any, out: int, out_strides: Any, shape: Any
    ) -> tuple[Tensor, Tensor]:
        """Frames that are read, and those of the same shape that are written."""
        return self.frames(x, x_strides, shape), self.frames(
            out, out_strides, shape, is_written=True
        )

    def rows(
        self,
        matrix: Any,
        shape: Any,
        *,
        is_written: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Rows [N, C], usually of the module's scalar type."""
        sizes, steps = (shape.rows, shape.channels), (matrix.pitch, 1)
        kind = dtype or self.module.dtype
        return self.tensor(matrix.first, sizes, steps, kind, is_written=is_written)

    def stream(self, matrix: Any, shape: Any, *, is_written: bool = False) -> Tensor:
        """Rows [N, C] of the residual stream."""
        dtype = torch.float32 if "STREAM_FLOAT32" in self.module.macros else None
        return self.rows(matrix, shape, is_written=is_written, dtype=dtype)


def _value(argument: Argument) -> Any:
    return argument if isinstance(argument, ctypes.Structure) else argument.value


def _group_statistics(
    launch: Launch, x: int, strides: Any, shape: Any, bias: int, mean: int, m2: int
) -> None:
    found = launch.frames(x, strides, shape).double()
    if bias:
        found = found + launch.tensor(bias, (shape.channels,))
    _statistics(launch, found, shape, (mean, m2))


def _add_residual(launch: Launch, *arguments: Any) -> None:
    x, x_strides, change, change_strides, shape, bias, *found = arguments
    launch.frames(x, x_strides, shape)  # read, too
    into = launch.frames(x, x_strides, shape, is_written=True)
    more = launch.frames(change, change_strides, shape)
    added = launch.tensor(bias, (shape.channels,))
    if launch.has_values:
        into.copy_(into.double() + more.double() + added)
    _statistics(launch, into.double(), shape, found)


def _statistics(launch: Launch, found: Tensor, shape: Any, addresses: Sequence[int]) -> None:
    blocks, frames = launch.grid[0][:2]
    group = launch.module.macros["GROUP"]
    groups = shape.channels // group
    parts = frames, blocks, groups
    into = [launch.tensor(address, parts, is_written=True) for address in addresses]
    if not launch.has_values:
        return
    flat = found.reshape(frames, shape.pixels, groups, group)
    for block, some in enumerate(flat.split(shape.per_block, dim=1)):
        average = some.mean((1, 3))
        into[0][:, block] = average
        into[1][:, block] = (some - average[:, None, :, None]).square().sum((1, 3))


def _scale_and_shift(launch: Launch, *arguments: Any) -> None:
    mean, m2, shape, blocks, pixels, weight, bias, added, eps, *results = arguments
    groups, frames = launch.grid[0][:2]
    group = shape.channels // groups
    means, squares = (launch.tensor(address, (frames, blocks, groups)) for address in (mean, m2))
    factors = [launch.tensor(address, (shape.channels,)) for address in (weight, bias)]
    more = launch.tensor(added, (shape.channels,)) if added else 0
    sizes = frames, shape.channels
    into = [launch.tensor(address, sizes, is_written=True) for address in results]
    counts = torch.full((blocks, 1), shape.per_block * group, dtype=torch.float64)
    counts[-1] = (shape.pixels - (blocks - 1) * shape.per_block) * group
    if pixels:
        counts = launch.tensor(pixels, (blocks, 1), dtype=torch.int32).double() * group
    if not launch.has_values:
        return
    total = (means * counts).sum(1, keepdim=True) / counts.sum()
    spread = (squares + counts * (means - total).square()).sum(1) / counts.sum()
    inverse = (spread + eps).rsqrt().repeat_interleave(group, 1)
    into[0].copy_(inverse * factors[0])
    middle = total[:, 0].repeat_interleave(group, 1) - more
    into[1].copy_(factors[1] - middle * inverse * factors[0])


def _normalise(launch: Launch, *arguments: Any) -> None:
    *frames, scale, shift, silu, kept, step, first = arguments
    found, into = launch.frame_pair(*frames)
    sizes = len(found), found.shape[-1]
    factors = [launch.tensor(address, sizes)[:, None, None] for address in (scale, shift)]
    if launch.has_values:
        values = found.double() * factors[0] + factors[1]
        into.copy_(F.silu(values) if silu else values)
    if kept:
        strides = step, *into.stride()[1:]
        copy = launch.tensor(kept, into[first:].shape, strides, into.dtype, is_written=True)
        copy.copy_(into[first:])


def _rms_norm(launch: Launch, *arguments: Any) -> None:
    x, x_strides, out, strides, shape, gamma, shortest, silu, of_pixel, written = arguments
    found, channels = launch.frames(x, x_strides, shape), shape.channels
    factors, count = launch.tensor(gamma, (channels,)), len(found) - written
    if launch.has_values:
        values = F.normalize(found.double(), dim=-1, eps=shortest) * channels**0.5 * factors
        values = F.silu(values) if silu else values
    if count:
        steps = strides.t, strides.y, strides.x, 1
        sizes = count, *found.shape[1:]
        into = launch.tensor(out, sizes, steps, found.dtype, is_written=True)
        if launch.has_values:
            into.copy_(values[written:])
    if of_pixel:
        lengths = launch.tensor(of_pixel, found.shape[:3], is_written=True)
        if launch.has_values:
            lengths.copy_(found.double().norm(dim=-1).clamp(min=shortest).reciprocal())


def _rms_modulate(
    launch: Launch,
    x: Any,
    out: Any,
    shape: Any,
    scale: int | None,
    shift: int | None,
    eps: float,
) -> None:
    found, into = launch.stream(x, shape), launch.rows(out, shape, is_written=True)
    factors = [address and launch.tensor(address, (shape.channels,)) for address in (scale, shift)]
    if launch.has_values:
        values = found.double()
        values = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + eps)
        values = values if factors[0] is None else values * factors[0]
        into.copy_(values if factors[1] is None else values + factors[1])


def _add_gated(launch: Launch, x: Any, y: Any, shape: Any, gate: int) -> None:
    into, added = launch.stream(x, shape, is_written=True), launch.rows(y, shape)
    launch.stream(x, shape)  # read, too
    factors = launch.tensor(gate, (shape.channels,))
    if launch.has_values:
        into.copy_(into.double() + added.double() * factors)


def _swiglu(launch: Launch, x: Any, y: Any, out: Any, shape: Any) -> None:
    gate, value = launch.rows(x, shape), launch.rows(y, shape)
    into = launch.rows(out, shape, is_written=True)
    if launch.has_values:
        into.copy_(F.silu(gate.double()) * value.double())


def _round_to_e4m3(launch: Launch, x: Any, codes: int, shape: Any, scale: int) -> None:
    found, of_all = launch.rows(x, shape), launch.tensor(scale, ())
    into = launch.tensor(codes, found.shape, dtype=torch.float8_e4m3fn, is_written=True)
    if launch.has_values:
        into.copy_((found.float() / of_all).clamp(-448, 448))


def _round_to_int8(
    launch: Launch, x: Any, codes: int, shape: Any, scales: int, least: float
) -> None:
    found = launch.rows(x, shape)
    into = launch.tensor(codes, found.shape, dtype=torch.int8, is_written=True)
    of_rows = launch.tensor(scales, (shape.rows, 1), is_written=True)
    if launch.has_values:
        values = found.float()
        of_rows.copy_(values.abs().amax(1, keepdim=True).clamp(min=least) / 127)
        into.copy_((values / of_rows).round())


def _scale_sums(
    launch: Launch,
    sums: int,
    out: Any,
    shape: Any,
    of_rows: int,
    of_channels: int,
    bias: int | None,
) -> None:
    found = launch.tensor(sums, (shape.rows, shape.channels), dtype=torch.int32)
    into = launch.rows(out, shape, is_written=True)
    rows, channels = launch.tensor(of_rows, (shape.rows, 1)), (shape.channels,)
    scales, added = launch.tensor(of_channels, channels), bias and launch.tensor(bias, channels)
    if launch.has_values:
        values = found.double() * rows * scales
        into.copy_(values if added is None else values + added)


def _widen(kind: torch.dtype, launch: Launch, *arguments: Any) -> None:
    codes, out, shape, scales, step = arguments
    found = launch.tensor(codes, (shape.rows, shape.channels), dtype=kind)
    into = launch.rows(out, shape, is_written=True)
    factors = scales and launch.tensor(scales, (shape.rows if step else 1, 1))
    if launch.has_values:
        into.copy_(found.float() if factors is None else found.float() * factors)


def _widen_mxfp8(launch: Launch, codes: int, out: Any, shape: Any, exponents: int) -> None:
    found = launch.tensor(codes, (shape.rows, shape.channels), dtype=torch.float8_e4m3fn)
    into = launch.rows(out, shape, is_written=True)
    sizes = shape.rows, shape.channels // 32
    powers = launch.tensor(exponents, sizes, dtype=torch.uint8)
    if launch.has_values:
        into.copy_(times_powers(found.float(), powers))


def _widen_rotated(launch: Launch, *arguments: Any) -> None:
    *given, group = arguments
    codes, out, shape, scales, step = given
    found = launch.tensor(codes, (shape.rows, shape.channels), dtype=torch.int8)
    into = launch.rows(out, shape, is_written=True)
    factors = scales and launch.tensor(scales, (shape.rows if step else 1, 1))
    if launch.has_values:
        matrix = rotation(group, torch.device("cpu"), torch.float32)
        values = (found.float().view(-1, group) @ matrix).view(into.shape)
        into.copy_(values if factors is None else values * factors)


def _unpack(kind: str, launch: Launch, raw: int, out: int, count: int) -> None:
    block = BLOCKS[kind]
    found = launch.tensor(raw, (count, block.bytes), dtype=torch.uint8)
    sizes, dtype = (count, block.values), launch.module.dtype
    into = launch.tensor(out, sizes, dtype=dtype, is_written=True)
    if launch.has_values:
        into.copy_(block.unpack(found))


def _gather_qk(
    launch: Launch, tokens: Any, targets: Any, angles: Any, norm: Any, *out: Any
) -> None:
    dtype, copies = launch.module.dtype, launch.grid[0][1]
    macros = launch.module.macros
    channels = macros["VECTOR"] * macros["LANES"]
    shape = tokens.count, 3, tokens.heads, channels
    steps = tokens.token, tokens.part, tokens.head, 1
    qkv = launch.tensor(tokens.first, shape, steps, dtype)
    places = (copies, tokens.count), (targets.pitch, 1)
    target = launch.tensor(targets.target, *places, torch.int64)
    weights = [launch.tensor(address, (channels,)) for address in (norm.q, norm.k)]
    row = angles.row and launch.tensor(angles.row, (tokens.count,), dtype=torch.int64)
    if launch.has_values:
        rows = 1 + int(target.max())
        turned = 0 if not angles.cos else tokens.count if row is None else 1 + int(row.max())
    else:
        rows, turned = copies * tokens.count, 0 if not angles.cos else 1
    tables = [launch.tensor(a, (turned, angles.pairs)) for a in (angles.cos, angles.sin) if turned]
    for which, place in enumerate(out):
        sizes, strides = (rows, tokens.heads, channels), (place.row, place.head, 1)
        if not launch.has_values:
            rows_there = launch.gpu.at(place.first)[0].storage.nbytes() // dtype.itemsize
            sizes = (min(rows, rows_there // (tokens.heads * channels)), *sizes[1:])
        into = launch.tensor(place.first, sizes, strides, dtype, is_written=True)
        if not launch.has_values:
            continue
        values = qkv[:, which].float()
        if which < 2:
            values = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + norm.eps)
            values = values * weights[which]
            if tables:
                values = _rotated(values, *(t if row is None else t[row] for t in tables))
        for some in target:
            into.index_copy_(0, some, values.to(dtype))


def _attend(launch: Launch, *arguments: Any) -> None:
    *places, queries, keys, scale, frame, block = arguments
    macros, dtype = launch.module.macros, launch.module.dtype
    blocks, frames = launch.grid[0][:2]
    rows = slice(64 * block, min(64 * (block + blocks), queries))
    found = []
    for which, (place, count) in enumerate(
        zip(places, (queries, keys, keys, queries), strict=True)
    ):
        shape, steps = (frames, count, macros["CHANNELS"]), (place.frame, place.row, 1)
        first = place.first + frame * place.frame * dtype.itemsize
        found.append(launch.tensor(first, shape, steps, dtype, is_written=which == 3))
    q, k, v, into = found
    operations = 4 * frames * (rows.stop - rows.start) * keys * macros["CHANNELS"]
    launch.gpu.record.operations += operations
    if launch.has_values:
        weights = torch.softmax(q[:, rows].double() @ k.double().transpose(1, 2) * scale, -1)
        into[:, rows] = (weights @ v.double()).to(dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of the first channels of [N, heads, d] turned by angles [N, P]."""
    pairs, cos, sin = 2 * cos.shape[-1], cos[:, None], sin[:, None]
    even, odd = x[..., 0:pairs:2], x[..., 1:pairs:2]
    turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
    return torch.cat((turned, x[..., pairs:]), -1)


def _convolve(
    launch: Launch, given: Any, packed: int, result: Any, bias: int, residual: Any, first: Any
) -> None:
    """Some rows of some frames; of their blocks across those that the launch has."""
    macros = launch.module.macros
    high, wide, step = macros["TILE_HEIGHT"], macros["TILE_WIDTH"], macros["STRIDE"]
    (across, down, count), outer = launch.grid[0], result.channels
    parts = -(-outer // macros["TILE_CHANNELS"])
    frames = range(first.z, first.z + count)
    rows = slice(high * first.y, min(high * (first.y + down), result.height))
    blocks = torch.arange(result.width)[:, None] // wide * parts
    blocks = blocks + torch.arange(outer) // macros["TILE_CHANNELS"]
    mine = (blocks >= first.x) & (blocks < first.x + across)
    of_columns = float(mine.double().mean())
    of_rows = (rows.stop - rows.start) / result.height
    shape = frames.stop, result.height, result.width, outer
    launch.share = of_rows * of_columns * count / frames.stop
    into = launch.strided(result, shape)[first.z :, rows]
    added = 0
    if residual.first:
        added = launch.strided(residual, shape, is_written=False)[first.z :, rows].double()
    length = frames[-1] * given.time_stride + given.reach
    launch.share = of_rows * ((count - 1) * given.time_stride + given.reach) / length
    clip = _clip(launch, given, length)
    launch.share = 1.0
    weight = _unpacked(launch, packed, given, outer)
    if bias:
        added = added + launch.tensor(bias, (outer,))
    taps = given.reach * macros["ROWS"] * macros["COLUMNS"]
    launch.gpu.record.operations += int(2 * into.numel() * of_columns * given.channels * taps)
    if not launch.has_values:
        return
    margins = given.left, result.width * step, given.above, result.height * step
    seen = [
        (n - 1) * step + taps for n, taps in zip(into.shape[1:3], weight.shape[3:], strict=True)
    ]
    padded = F.pad(clip, margins)[..., step * rows.start :, :][..., : seen[0], : seen[1]]
    zeros = 0 if given.past.first else given.past_count
    found = launch.module.sums(padded, weight, (given.time_stride, step), zeros)
    found = found.permute(0, 2, 3, 1)[first.z :] + added
    into.copy_(torch.where(mine, found, into.double()))
    if macros["GROUP"]:
        _tile_statistics(launch, into.double(), result, frames, rows)


def _clip(launch: Launch, given: Any, length: int) -> Tensor:
    """Past and new frames [length, C, H, W] with the norms that they lack, float64."""
    sizes, found = (given.height, given.width, given.channels), []
    sources = (
        (given.past, given.past_norm, min(given.past_count, length)),
        (
            *(given.frames, given.frames_norm),
            length - given.past_count,
        ),
    )
    for source, norm, count in sources:
        if not source.first:
            zeros = {"dtype": torch.float64, "device": "cpu" if launch.has_values else "meta"}
            found.append(torch.zeros(max(0, count), *sizes, **zeros))
        elif count > 0:
            x = launch.strided(source, (count, *sizes), is_written=False).double()
            found.append(_without_lack(launch, x, norm, silu=given.silu))
    return torch.cat(found).permute(0, 3, 1, 2)


def _without_lack(launch: Launch, x: Tensor, norm: Any, *, silu: bool) -> Tensor:
    kind = launch.module.macros["NORM"]
    if not kind or not norm.scale:
        return x
    if kind == 1:
        shape = len(x), 1, 1, x.shape[-1]
        x = x * launch.tensor(norm.scale, shape) + launch.tensor(norm.shift, shape)
    else:
        x = x * launch.tensor(norm.scale, x.shape[-1:])
        x = x * launch.tensor(norm.of_pixel, (*x.shape[:3], 1))
    return (F.silu(x) if silu else x).half().double()


def _unpacked(launch: Launch, packed: int, given: Any, outer: int) -> Tensor:
    """Weights [O, I, K, kh, kw] in float64; see `Program.packed`."""
    macros = launch.module.macros
    across, chunk = macros["TILE_CHANNELS"], macros["CHUNK"]
    parts, chunks = -(-outer // across), -(-given.channels // chunk)
    kernel = macros["ROWS"], macros["COLUMNS"]
    shape = parts, given.reach, chunks, kernel[0] * kernel[1], across, chunk
    weight = launch.tensor(packed, shape, dtype=launch.module.dtype).permute(0, 4, 2, 5, 1, 3)
    weight = weight.reshape(parts * across, chunks * chunk, given.reach, *kernel)
    return weight[:outer, : given.channels].double()


def _tile_statistics(launch: Launch, x: Tensor, result: Any, frames: range, rows: slice) -> None:
    """Mean and squared deviations of each tile, [frames, tiles, groups]."""
    macros = launch.module.macros
    high, wide, group = macros["TILE_HEIGHT"], macros["TILE_WIDTH"], macros["GROUP"]
    across, down = -(-result.width // wide), -(-result.height // high)
    shape = frames.stop, down, across, result.channels // group
    mean, m2 = (
        launch.tensor(at, shape, is_written=True)[frames.start :] for at in (result.mean, result.m2)
    )
    for y, x_rows in enumerate(x.split(high, 1), rows.start // high):
        for at, tile in enumerate(x_rows.split(wide, 2)):
            values = tile.unflatten(-1, (-1, group))
            middle = values.mean((1, 2, 4), keepdim=True)
            mean[:, y, at] = middle[:, 0, 0, :, 0]
            m2[:, y, at] = (values - middle).square().sum((1, 2, 4))


def _multiply_only(launch: Launch, out: int, rounds: int) -> None:
    (blocks, *_), (threads, *_) = launch.grid[:2]
    launch.tensor(out, (blocks * threads,), dtype=torch.int32, is_written=True)
    launch.gpu.record.operations += rounds * blocks * threads // 32 * 8 * 2 * 16 * 8 * 16


_KERNELS: dict[str, Callable[..., None]] = {
    "group_statistics": _group_statistics,
    "add_residual": _add_residual,
    "scale_and_shift": _scale_and_shift,
    "normalise": _normalise,
    "rms_norm": _rms_norm,
    "rms_modulate": _rms_modulate,
    "add_gated": _add_gated,
    "swiglu": _swiglu,
    "round_to_e4m3": _round_to_e4m3,
    "round_to_int8": _round_to_int8,
    "scale_sums": _scale_sums,
    "widen_e4m3": partial(_widen, torch.float8_e4m3fn),
    "widen_e5m2": partial(_widen, torch.float8_e5m2),
    "widen_int8": partial(_widen, torch.int8),
    "widen_mxfp8": _widen_mxfp8,
    "widen_rotated": _widen_rotated,
    **{f"unpack_{kind.lower()}": partial(_unpack, kind) for kind in BLOCKS},
    "gather_qk": _gather_qk,
    "attend": _attend,
    "convolve": _convolve,
    "multiply_only": _multiply_only,
}
