"""Cases of the transformer: `dit-3b`, `-7b`, `formats-3b`, `-7b`, `streaming` and `launches`.

Weights are random; on a CPU the models are narrower than the published ones. `dit-3b` and `dit-7b`
compare both variants with a lower bound: the matrix products and the attention of the fast variant
alone. All are timed round by round, so that other load of the computer slows each of them.
`formats` and `streaming` measure the fast variant in every format of weights, and with its blocks
streamed; `launches` how long the host takes for a launch, which decides whether CUDA graphs could
pay.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from engine.bench.memory import gpu_bytes, gpu_row, main_memory_row
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import MatmulRecorder, measure
from engine.bench.workload import (
    allowed_gpu_bytes,
    capability_of,
    device_of,
    dit_run,
    require_gpu,
    variants,
)
from engine.core.geometry import Size
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware.devices import ram
from engine.hardware.out_of_memory import free_memory
from engine.models.seedvr2 import files
from engine.models.seedvr2.dit import cost
from engine.models.seedvr2.dit.config import DIT_3B, FORMAT_BYTES, windows
from engine.models.seedvr2.dit.load import LoadOptions
from engine.models.seedvr2.dit.random_dit import TEXT_LENGTH, DitRun, Kind
from engine.models.seedvr2.dit.random_file import RandomFile
from engine.ops.kernels import token_rows
from engine.ops.linear.formats import PRODUCTS, STORED, working
from engine.ops.norm.token_passes import add_gated
from engine.ops.transfer.pinned import HostBytes

_FRAMES = (5,)
_MIB = 2**20
_BOUND = "products and attention"
_SIZE = Size(1280, 720)  # on a GPU
_COMMON = ("", "F8_E4M3", "Q8_0", "Q4_K", "fp8", "int8", "nvfp4")  # measured first
_LAUNCHES, _WARM_UPS = 500, 20  # fewer than the driver's queue holds: it never waits
_COPIED_BYTES = 256 * _MIB
_LEFT_BYTES = 2 * 2**30  # of main memory, for everything but weights


@dataclass(slots=True, eq=False)
class TimedVariant:
    """A variant that is timed in rounds, or the lower bound."""

    title: str
    work: Callable[[], object]  # runs it once
    run: DitRun | None = None  # None for the lower bound
    facts: Row = field(default_factory=dict)  # figures that are known without timing
    seconds: list[float] = field(default_factory=list)  # one time for each round
    wall_s: list[float] = field(default_factory=list)

    def time_once(self, device: str) -> None:
        """Add a round."""
        timing = measure(self.work, device, runs=1)
        self.seconds.append(timing.seconds)
        self.wall_s.append(timing.wall_s)

    def ratio_to(self, other: TimedVariant) -> float:
        """Median of the ratios of both in each round."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return statistics.median(own / theirs for own, theirs in pairs)


def dit_rows(options: BenchOptions, kind: Kind) -> Iterator[Row]:
    """A row for each variant and length of clip, and one for the lower bound."""
    base = dit_run(options, kind)
    for frames in options.frames or _FRAMES:
        try:
            yield from _rows(options, replace(base, frames=frames))
        except torch.OutOfMemoryError:
            yield {"form": "all", "frames": frames, "note": message("bench.out-of-memory")}


def _rows(options: BenchOptions, base: DitRun) -> Iterator[Row]:
    timed = list(_warmed_up(options, base))
    for _ in range(options.rounds(3, 5, device=base.device)):
        for one in timed:
            one.time_once(base.device)
    by_title = {one.title: one for one in timed}
    for one in timed:
        seconds = statistics.median(one.seconds)  # CPU seconds of all threads, or those of the GPU
        row: Row = {
            "form": one.title,
            "frames": base.frames,
            "size": str(base.size),
            "tokens": base.tokens,
            "dtype": base.dtype,
            "threads": base.threads,
            "seconds": seconds,
            "clock": "card" if base.device == "cuda" else "cpu",
            "wall_s": statistics.median(one.wall_s),
            **one.facts,
        }
        if "tflop" in row:
            row["tflop_per_s"] = row["tflop"] / seconds
        for title, name in (("plain", "of_plain"), (_BOUND, "of_products")):
            if title in by_title and one.title not in ("plain", _BOUND):
                row[name] = one.ratio_to(by_title[title])
        if options.memory and one.run is not None and base.device != "cuda":
            row |= main_memory_row(one.run)
        yield row


def _warmed_up(options: BenchOptions, base: DitRun) -> Iterator[TimedVariant]:
    """All variants after a first run, with shared weights."""
    plain = base.built()
    for title, run in variants(options, base):
        dit = run.built(plain)
        work = run.work_of(dit)
        work()
        before, on_gpu = gpu_bytes(base.device), base.device == "cuda"
        if on_gpu:  # buffers that stay from the warm-up do not count
            torch.cuda.reset_peak_memory_stats()
        facts: Row = {"finite": "yes" if work().isfinite().all() else "NO"}
        if on_gpu:
            torch.cuda.synchronize()
            facts["peak_mib"] = (torch.cuda.max_memory_allocated() - before) / _MIB
        yield TimedVariant(title, work, run, facts)
        if title == "fast":
            yield _lower_bound(run, list(dit.parameters()), work)


def _lower_bound(run: DitRun, weights: list[Tensor], work: Callable[[], Tensor]) -> TimedVariant:
    """Matrix products and attention alone, with the calls of attention and the window shapes."""
    with MatmulRecorder(weights) as replay:
        work()
    replay.run()
    facts: Row = {
        "tflop": replay.flops / 1e12,
        "attention_calls": replay.attention_calls,
        "window_shapes": _window_shapes(run),
    }
    return TimedVariant(_BOUND, replay.run, facts=facts)


def _window_shapes(run: DitRun) -> int:
    """Different shapes of windows in each layer, summed over the layers."""
    config = run.config
    time, height, width = (
        side // size for side, size in zip(run.latent_shape, config.patch, strict=True)
    )
    layers = (
        windows((time, height, width), config.window, shifted=layer % 2 == 1)
        for layer in range(config.layers)
    )
    return sum(len({window.shape for window in layer}) for layer in layers)


# --- formats of weights


def format_rows(options: BenchOptions, kind: Kind) -> Iterator[Row]:
    """A row for each format of weights and of matrix products: time and memory of a forward.

    `weights_mib` and `peak_mib` (of the forward in addition to the weights) are what torch
    allocated, next to what the planner counts; `reserved_mib` is what torch took from the driver.
    Weights that do not fit on the GPU are streamed: `blocks` stay there.
    """
    run = _fast_run(options, kind)
    for name in (*_COMMON, *sorted(STORED - set(_COMMON))):
        row: Row = {"weights": name or run.dtype, "dtype": run.dtype, "tokens": run.tokens}
        if name in PRODUCTS and name not in working(run.device):
            yield row | {"note": message("bench.no-matmul")}
        else:
            yield row | _forward_row(options, run, name, _placed(run, name))


def streaming_rows(options: BenchOptions) -> Iterator[Row]:
    """A forward with all weights on the GPU, then with all blocks streamed, pinned and not.

    `copy_s` is the time that the streamed bytes take alone, at the measured rate of pinned copies;
    `overlap` is the share of the shorter of copying and computing that ran at the same time as the
    other.
    """
    require_gpu(options)
    run = _fast_run(options, "3b")
    placed, copy_s = _placed(run, ""), _streamed_bytes(run, "", 0) / _copy_rate(run)
    resident = _forward_row(options, run, "", placed) if placed.blocks_on_device is None else {}
    if resident:
        yield {"weights": "resident", **resident}
    pinned = _streamed(run, "")
    for load in dict.fromkeys((pinned, replace(pinned, pin_bytes=0))):
        row = {"pinned_mib": (load.pin_bytes or 0) / _MIB, "copy_s": copy_s}
        row |= _forward_row(options, run, "", load)
        if "seconds" in row and "seconds" in resident:
            both = copy_s + resident["seconds"] - row["seconds"]
            row["overlap"] = max(0.0, min(1.0, both / min(copy_s, resident["seconds"])))
        yield {"weights": "streamed", **row}


def _fast_run(options: BenchOptions, kind: Kind) -> DitRun:
    """Five frames; in float16 on GPUs without bfloat16."""
    device = device_of(options)
    if device == "cuda":
        size = None if options.quick else _SIZE
        dtype = "bfloat16" if (capability_of(device) or (8, 0)) >= (8, 0) else "float16"
        options = replace(options, size=options.size or size, dtype=options.dtype or dtype)
    return replace(dit_run(options, kind), form="fast")


def _forward_row(options: BenchOptions, run: DitRun, name: str, load: LoadOptions) -> Row:
    """Time and memory of a forward, or a note why there is none."""
    blocks = load.blocks_on_device
    row: Row = {"blocks": "all" if blocks is None else blocks}
    if blocks is not None:
        needed = _streamed_bytes(run, name, blocks) + (load.pin_bytes or 0) + _LEFT_BYTES
        free = ram()[1]
        if needed > free:
            texts = {"needed": bytes_text(needed), "free": bytes_text(free)}
            return row | {"note": message("bench.too-little-ram", **texts)}
    try:
        return row | _figures(options, run, name, load)
    except torch.OutOfMemoryError:
        return row | {"note": message("bench.out-of-memory")}
    finally:
        free_memory()


def _figures(options: BenchOptions, run: DitRun, name: str, load: LoadOptions) -> Row:
    before = gpu_bytes(run.device)
    dit = run.loaded(load, "" if name in PRODUCTS else name)
    loaded = gpu_bytes(run.device)
    work = run.work_of(dit)
    is_finite = bool(work().isfinite().all())  # and tries backends of attention
    memory: Row = {}
    if run.device == "cuda":
        found = gpu_row(work, loaded)
        memory = {
            "weights_mib": (loaded - before) / _MIB,
            "planned_weights_mib": _weights_bytes(run, name, load) / _MIB,
            "peak_mib": found["peak_mib"],
            "planned_peak_mib": _forward_bytes(run, name) / _MIB,
            "reserved_mib": found["reserved_mib"],
        }
    seconds = measure(work, run.device, runs=options.rounds(3)).seconds
    dit.close()
    speed = {"seconds": seconds, "tflop_per_s": run.operations / seconds / 1e12}
    return {**speed, "finite": "yes" if is_finite else "NO", **memory}


def _placed(run: DitRun, name: str) -> LoadOptions:
    """All blocks on the device; all streamed where a job may not take so much of the GPU."""
    load = LoadOptions(products=_products(name))
    if run.device != "cuda":
        return load
    needed = _weights_bytes(run, name, load) + _forward_bytes(run, name)
    return load if needed <= allowed_gpu_bytes() else _streamed(run, name)


def _streamed(run: DitRun, name: str) -> LoadOptions:
    """All blocks streamed; half of what main memory has left for pinned copies."""
    streamed = _streamed_bytes(run, name, 0)
    left = max(0, ram()[1] - _LEFT_BYTES - streamed)
    pinned = min(streamed, left // 2)
    return LoadOptions(products=_products(name), blocks_on_device=0, pin_bytes=pinned)


def _products(name: str) -> str:
    return name if name in PRODUCTS else "none"


def _weights_bytes(run: DitRun, name: str, load: LoadOptions) -> int:
    """Bytes of weights on the device."""
    blocks, weights = load.blocks_on_device, _stored(run, name)
    return cost.resident_bytes(run.config, weights, blocks, device=run.device)


def _streamed_bytes(run: DitRun, name: str, blocks: int) -> int:
    """Bytes of weights that are copied to the device in each forward."""
    return cost.streamed_bytes(run.config, _stored(run, name), blocks)


def _forward_bytes(run: DitRun, name: str) -> int:
    """Bytes of one forward in addition to the weights."""
    asked = run.config, run.latent_shape, TEXT_LENGTH, run.dtype, run.device
    return cost.forward_bytes(*asked, widened=name in STORED)


def _stored(run: DitRun, name: str) -> cost.WeightBytes:
    if name in PRODUCTS:
        return cost.weight_bytes(run.config, FORMAT_BYTES[name], run.dtype)
    return files.weight_bytes_of(RandomFile(run.config, run.dtype, name), run.dtype)


def _copy_rate(run: DitRun) -> float:
    """Bytes a second from pinned main memory to the GPU."""
    device = torch.device(run.device)
    host = HostBytes(_COPIED_BYTES, device)
    host.flat.zero_()
    target = torch.empty_like(host.flat, device=device)
    work = partial(target.copy_, host.flat, non_blocking=host.pinned)
    seconds = measure(work, run.device, runs=5, warm_ups=1).seconds
    host.release()
    return _COPIED_BYTES / seconds


# --- launches

_SMALL_LATENT = 2, 90, 160  # 5 frames of 720p, 7,200 tokens


def launch_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each kind of launch, then one for a forward pass of the transformer.

    `host_us` is the time until the host can go on, `with_gpu_us` that until the GPU has finished as
    well, for each of many launches in a row. Each kernel has hardly any work. `host_ms` is the time
    of the host for as many launches as a forward of the 3B has.
    """
    device = torch.device(require_gpu(options))
    tokens, gate = torch.ones(2, 16, DIT_3B.dim, device=device, dtype=torch.float16)
    scale = torch.ones(DIT_3B.dim, device=device)
    works: dict[str, Callable[[], object]] = {"torch": partial(tokens.mul_, 1.0)}
    if token_rows.working(device, tokens.dtype):
        works["our kernels"] = partial(add_gated, tokens, gate, scale, kernels=True)
    found: Row = {}
    for name, work in works.items():
        found = _launch_times(work)
        yield {"launch": name, **found}
    passes = cost.forward_passes(DIT_3B, _SMALL_LATENT, cost.DitUse(dtype="bfloat16"))
    count = round(passes.launches)
    yield {
        "launch": "a forward pass of the 3B",
        "launches": count,
        "host_ms": count * found["host_us"] / 1e3,
    }


def _launch_times(work: Callable[[], object]) -> Row:
    """Times of one of many calls."""
    for _ in range(_WARM_UPS):
        work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(_LAUNCHES):
        work()
    host = time.perf_counter() - begin
    torch.cuda.synchronize()
    whole = time.perf_counter() - begin
    return {"host_us": host / _LAUNCHES * 1e6, "with_gpu_us": whole / _LAUNCHES * 1e6}
