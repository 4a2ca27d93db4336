"""Cases `vae-encode` and `vae-decode`: a video VAE with random weights, plain and fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.bench.cases.vae_models import Config, Side, VaeRun
from engine.bench.cases.vae_runs import (
    base_run,
    build,
    random_weights,
    work_of,
)
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.peak_rates import (
    CALIBRATION_FLOPS,
    REFERENCE_CALIBRATION,
    Clocked,
    calibration,
    clocked,
    matrix_ceiling,
)
from engine.bench.timing.process_memory import Traffic, memory_of
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE
from engine.models.wan.vae.config import WAN21, WAN22
from engine.settings.optimisations import VaeSwitches

if TYPE_CHECKING:
    from engine.bench.cases.vae_models import Vae

# CPU s of the public reference programs: 256x256, float32, on a machine whose calibration is
# REFERENCE_CALIBRATION; by model, side and frames. Nobody calibrated the machine of Wan's figures:
# it is described in the same words, and is taken for the same.
REFERENCE_SECONDS: dict[tuple[Config, Side, int], float] = {
    (VAE, "decode", 5): 95.3,
    (VAE, "decode", 1): 23.0,
    (VAE, "encode", 5): 37.0,
    (VAE, "encode", 1): 9.6,
    (WAN21, "decode", 5): 38.8,
    (WAN22, "decode", 5): 71.6,
}
_REFERENCE_SIZE = Size(256, 256)
_FRAMES = (5, 1)
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """What figures are compared with; 0 where it was not measured."""

    ceiling: float = 0.0  # floating-point operations a second of the device
    calibration: float = 0.0  # CPU s of the calibrating convolution


def vae_rows(options: BenchOptions, side: Side) -> Iterator[Row]:
    """A row of yardsticks, then one for each form and each length of clip."""
    base = base_run(options, side)
    yardsticks = _yardsticks(options, base)
    if options.calibrate:
        yield _yardstick_row(base, yardsticks)
    weights = random_weights(base)
    plain: dict[int, float] = {}
    for title, run in variants(options, base):
        for row, frames in _rows_of(options, run, weights, yardsticks):
            if "seconds" in row and run.form == "plain":
                plain[frames] = row["seconds"]
            elif "seconds" in row and frames in plain:
                row["of_plain"] = row["seconds"] / plain[frames]
            yield {"form": title, **row}


def variants(options: BenchOptions, base: VaeRun) -> Iterator[tuple[str, VaeRun]]:
    """Name and run of everything that is compared: plain, fast, fast with other switches."""
    if options.form in ("plain", "both"):
        yield "plain", base
    fast = replace(base, form="fast")
    if options.form in ("fast", "both"):
        yield "fast", fast
    for name in VaeSwitches.known(options.without):
        yield f"without {name}", replace(fast, switches=VaeSwitches().changed(name, False))
    for name in VaeSwitches.known(options.only):
        yield f"only {name}", replace(fast, switches=VaeSwitches.only(name))


def _yardsticks(options: BenchOptions, base: VaeRun) -> Yardsticks:
    if not options.calibrate:
        return Yardsticks()
    ceiling = matrix_ceiling(base.device, base.torch_dtype, quick=options.quick)
    if base.device == "cuda":
        return Yardsticks(ceiling)
    seconds = calibration(quick=options.quick)
    if base.dtype == "float32":  # where products of matrices are slower than convolutions
        ceiling = max(ceiling, CALIBRATION_FLOPS / seconds)
    return Yardsticks(ceiling, seconds)


def _calibrated(options: BenchOptions, run: VaeRun, yardsticks: Yardsticks) -> float:
    """The calibrating convolution beside a timing: the clock of a processor moves by the minute."""
    if reference_seconds(run, yardsticks.calibration) is None:
        return 0.0
    return calibration(quick=options.quick)


def _yardstick_row(base: VaeRun, yardsticks: Yardsticks) -> Row:
    row: Row = {
        "case": "yardsticks",
        "beside": f"vae-{base.side}",
        "dtype": base.dtype,
        "device": base.device,
        "threads": base.threads,
        "tflop_per_s": yardsticks.ceiling / 1e12,
    }
    if yardsticks.calibration:
        row["calibration_cpu_s"] = yardsticks.calibration
    return row


def _rows_of(
    options: BenchOptions, run: VaeRun, weights: Mapping[str, Tensor], yardsticks: Yardsticks
) -> Iterator[tuple[Row, int]]:
    """One model and all lengths of clips; a lack of memory is a row too."""
    before = _allocated(run)
    vae = build(run, weights)
    loaded = _allocated(run)
    for frames in options.frames or _FRAMES:
        one = replace(run, frames=frames)
        row: Row = {"frames": frames, "size": str(run.size), "dtype": run.dtype}
        try:
            start = _calibrated(options, one, yardsticks)
            timing, finite = _timed(options, one, vae)
            beside = (start + _calibrated(options, one, yardsticks)) / 2
            here = replace(yardsticks, calibration=beside)
            row |= _figures(one, timing, here) | {"finite": "yes" if finite else "NO"}
            if run.device == "cuda":
                row |= {"weights_mib": (loaded - before) / _MIB} | _card_memory(one, vae, loaded)
            elif options.memory:
                row |= _main_memory(one)
        except torch.OutOfMemoryError:
            row["note"] = "not enough memory"
        yield row, frames
    del vae
    gc.collect()
    if run.device == "cuda":
        torch.cuda.empty_cache()


def _timed(options: BenchOptions, run: VaeRun, vae: Vae) -> tuple[Clocked, bool]:
    """How long it takes, and whether the last result is made of numbers."""
    compute = work_of(run, vae)
    results: list[Tensor] = []

    def work() -> None:
        results.clear()  # the last result is no part of the next one's peak
        results.append(compute())

    on_card = run.device == "cuda"
    runs = options.runs or (1 if options.quick else 5 if on_card else 3)
    timing = clocked(work, run.device, runs=runs, warm_ups=2 if on_card else 0)
    return timing, bool(results[0].isfinite().all())


def _figures(run: VaeRun, timing: Clocked, yardsticks: Yardsticks) -> Row:
    """Figures of a timing; `seconds` are those of all threads, or of the card."""
    rate = run.flops / timing.seconds
    megapixels = run.frames * run.size.pixels / 1e6
    row: Row = {
        "seconds": timing.seconds,
        "clock": "card" if run.device == "cuda" else "cpu",
        "wall_s": timing.wall_s,
        "ms_a_megapixel": 1000 * timing.seconds / megapixels,
        "tflop": run.flops / 1e12,
        "tflop_per_s": rate / 1e12,
    }
    if yardsticks.ceiling:
        row["ceiling_percent"] = 100 * rate / yardsticks.ceiling
    reference = reference_seconds(run, yardsticks.calibration)
    if reference:
        row["calibration_cpu_s"] = yardsticks.calibration
        row["of_reference"] = timing.seconds / reference
    return row


def reference_seconds(run: VaeRun, calibration_s: float) -> float | None:
    """CPU seconds of the public reference on this machine; None where they are not known.

    Args:
        run: What is measured.
        calibration_s: CPU s of the calibrating convolution here; 0 when it was not measured.
    """
    known = REFERENCE_SECONDS.get((run.config, run.side, run.frames))
    is_same = (run.size, run.dtype, run.device) == (_REFERENCE_SIZE, "float32", "cpu")
    if known is None or not calibration_s or not is_same:
        return None
    return known * calibration_s / REFERENCE_CALIBRATION


def _main_memory(run: VaeRun) -> Row:
    memory = memory_of(run)
    row: Row = {
        "loaded_mib": memory.loaded_bytes / _MIB,
        "peak_mib": memory.peak_bytes / _MIB,
        "result_mib": memory.result_bytes / _MIB,
        "traffic_mib": memory.traffic_bytes / _MIB,
    }
    return row if memory.is_alone else row | {"note": "memory measured beside other work"}


def _card_memory(run: VaeRun, vae: Vae, loaded: int) -> Row:
    """Memory of one more run, counted by torch: buffers that stay are part of the peak."""
    work = work_of(run, vae)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with Traffic() as traffic:
        work()
    torch.cuda.synchronize()
    return {
        "peak_mib": (torch.cuda.max_memory_allocated() - loaded) / _MIB,
        "reserved_mib": torch.cuda.max_memory_reserved() / _MIB,
        "traffic_mib": traffic.bytes / _MIB,
    }


def _allocated(run: VaeRun) -> int:
    return torch.cuda.memory_allocated() if run.device == "cuda" else 0
