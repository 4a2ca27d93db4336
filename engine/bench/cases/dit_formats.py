"""Cases `formats-3b`, `formats-7b`, `streaming`: SeedVR2's transformer in every weights format.

Weights are random. On a GPU the models have their published sizes, on a processor they are
narrower ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from engine.bench.cases.runs import (
    allowed_gpu_bytes,
    capability_of,
    device_of,
    dit_run,
    require_gpu,
)
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.core.geometry import Size
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware.devices import ram
from engine.hardware.out_of_memory import free_memory
from engine.models.seedvr2 import files
from engine.models.seedvr2.dit import cost, random_dit
from engine.models.seedvr2.dit.config import FORMAT_BYTES
from engine.models.seedvr2.dit.load import LoadOptions
from engine.models.seedvr2.dit.random_dit import TEXT_LENGTH, DitRun, Kind
from engine.models.seedvr2.dit.random_file import RandomFile
from engine.ops.linear.formats import PRODUCTS, STORED, working
from engine.ops.transfer.pinned import HostBytes

_MIB = 2**20
_SIZE = Size(1280, 720)  # on a GPU
_COMMON = ("", "F8_E4M3", "Q8_0", "Q4_K", "fp8", "int8", "nvfp4")  # measured first
_COPIED_BYTES = 256 * _MIB
_LEFT_BYTES = 2 * 2**30  # of main memory, for everything but weights


def format_rows(options: BenchOptions, kind: Kind) -> Iterator[Row]:
    """A row for each format of weights and of matrix products: time and memory of a forward.

    `weights_mib` and `peak_mib` (of the forward in addition to the weights) are what torch
    allocated, next to what the planner counts; `reserved_mib` is what torch took from the driver.
    Weights that do not fit on the GPU are streamed: `blocks` stay there.
    """
    run = _run(options, kind)
    for name in (*_COMMON, *sorted(STORED - set(_COMMON))):
        row: Row = {"weights": name or run.dtype, "dtype": run.dtype, "tokens": run.tokens}
        if name in PRODUCTS and name not in working(run.device):
            yield row | {"note": message("bench.no-matmul")}
        else:
            yield row | _row(options, run, name, _placed(run, name))


def streaming_rows(options: BenchOptions) -> Iterator[Row]:
    """A forward with all weights on the GPU, then with all blocks streamed, pinned and not.

    `copy_s` is the time that the streamed bytes take alone, at the measured rate of pinned copies;
    `overlap` is the share of the shorter of copying and computing that ran at the same time as the
    other.

    Raises:
        NoUsableGpu: torch has none.
    """
    require_gpu(options)
    run = _run(options, "3b")
    placed, copy_s = _placed(run, ""), _streamed_bytes(run, "", 0) / _copy_rate(run)
    resident = _row(options, run, "", placed) if placed.blocks_on_device is None else {}
    if resident:
        yield {"weights": "resident", **resident}
    pinned = _streamed(run, "")
    for load in dict.fromkeys((pinned, replace(pinned, pin_bytes=0))):
        row = {"pinned_mib": (load.pin_bytes or 0) / _MIB, "copy_s": copy_s}
        row |= _row(options, run, "", load)
        if "seconds" in row and "seconds" in resident:
            both = copy_s + resident["seconds"] - row["seconds"]
            row["overlap"] = max(0.0, min(1.0, both / min(copy_s, resident["seconds"])))
        yield {"weights": "streamed", **row}


def _run(options: BenchOptions, kind: Kind) -> DitRun:
    """Five frames; in float16 on GPUs without bfloat16."""
    device = device_of(options)
    if device == "cuda":
        size = None if options.quick else _SIZE
        dtype = "bfloat16" if (capability_of(device) or (8, 0)) >= (8, 0) else "float16"
        options = replace(options, size=options.size or size, dtype=options.dtype or dtype)
    return replace(dit_run(options, kind), form="fast")


def _row(options: BenchOptions, run: DitRun, name: str, load: LoadOptions) -> Row:
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
    before = _allocated(run)
    dit = random_dit.read(run, load, "" if name in PRODUCTS else name)
    loaded = _allocated(run)
    work = random_dit.work_of(run, dit)
    is_finite = bool(work().isfinite().all())  # and tries backends of attention
    memory: Row = {}
    if run.device == "cuda":
        free_memory()
        torch.cuda.reset_peak_memory_stats()
        work()
        torch.cuda.synchronize()
        memory = {
            "weights_mib": (loaded - before) / _MIB,
            "planned_weights_mib": _weights_bytes(run, name, load) / _MIB,
            "peak_mib": (torch.cuda.max_memory_allocated() - loaded) / _MIB,
            "planned_peak_mib": _forward_bytes(run, name) / _MIB,
            "reserved_mib": torch.cuda.max_memory_reserved() / _MIB,
        }
    runs = options.runs or (1 if options.quick else 3)
    seconds = measure(work, run.device, runs=runs).seconds
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


# --- what the planner counts


def _weights_bytes(run: DitRun, name: str, load: LoadOptions) -> int:
    """Of weights on the device."""
    blocks, weights = load.blocks_on_device, _stored(run, name)
    return cost.resident_bytes(run.config, weights, blocks, device=run.device)


def _streamed_bytes(run: DitRun, name: str, blocks: int) -> int:
    """Of weights that come to the device in each forward."""
    return cost.streamed_bytes(run.config, _stored(run, name), blocks)


def _forward_bytes(run: DitRun, name: str) -> int:
    """Of one forward in addition to the weights."""
    asked = run.config, run.latent_shape, TEXT_LENGTH, run.dtype, run.device
    return cost.forward_bytes(*asked, widened=name in STORED)


def _stored(run: DitRun, name: str) -> cost.WeightBytes:
    if name in PRODUCTS:
        return cost.weight_bytes(run.config, FORMAT_BYTES[name], run.dtype)
    return files.weight_bytes_of(RandomFile(run.config, run.dtype, name), run.dtype)


# --- the GPU


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


def _allocated(run: DitRun) -> int:
    return torch.cuda.memory_allocated() if run.device == "cuda" else 0
