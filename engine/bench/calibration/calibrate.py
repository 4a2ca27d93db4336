"""The speed test: costs of the work of jobs on this machine, measured within a minute.

It takes about half a minute on two cores. Costs are CPU seconds of all threads, which other
programs disturb little; on a GPU they are seconds of the GPU. Plans use them for predicted times.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from engine.bench.calibration import models
from engine.bench.calibration.models import Step
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import Costs
from engine.core.errors import Cancelled
from engine.core.messages import Message, message
from engine.hardware import devices, gpu_table
from engine.planner import rates as saved
from engine.planner.rates import Rates
from engine.planner.times import name_of
from engine.protocol.report import MeasuredRate

Report = Callable[[int, int, Message | None], None]  # steps done, of how many, the one that begins
_LIMIT_S = 45.0  # no step begins later: a busy or slow machine keeps the default costs
_FIXED = {"start": "s a job", "frame": "s a frame", "check": "s a frame"}
_OF_MODELS = ("vae", "transformer")
_CODECS = {
    "libx264": "H.264",
    "libx265": "HEVC",
    "libsvtav1": "AV1",
    "prores_ks": "ProRes",
    "ffv1": "FFV1",
    "png": "PNG",
    "tiff": "TIFF",
    "encoder": "NVENC",
}


def calibrate(
    report: Report = lambda done, total, step: None, stop: Callable[[], bool] = lambda: False
) -> Rates:
    """Measure this machine; `keep` makes plans use the result.

    Args:
        report: Called before each step, and at the end with "" as its name.
        stop: Asked before each step.

    Raises:
        Cancelled: By `stop`.
    """
    threads, until = torch.get_num_threads(), time.monotonic() + _LIMIT_S
    torch.set_num_threads(devices.cpu_threads())
    gpu = _gpu()
    try:
        with tempfile.TemporaryDirectory(prefix="upreel-speed-") as folder:
            steps = [] if gpu is None else list(models.steps("cuda", gpu[1]))
            gpu_steps = len(steps)
            steps += _cpu_steps(Path(folder))
            found = _run(steps, report, stop, until)
    finally:
        torch.set_num_threads(threads)
    costs = _joined(found[gpu_steps:])
    return Rates(costs=costs, gpus={} if gpu is None else {gpu[0]: _joined(found[:gpu_steps])})


def keep(rates: Rates) -> None:
    """Save measured costs for plans; what jobs on the same devices taught before is dropped."""
    old = saved.load_rates()
    measured = set(rates.gpus) | {""}
    jobs = {key: one for key, one in old.jobs.items() if key.partition(" on ")[2] not in measured}
    costs, gpus = {**old.costs, **rates.costs}, {**old.gpus, **rates.gpus}
    saved.keep(replace(old, jobs=jobs, costs=costs, gpus=gpus))


def speed_rows(options: BenchOptions) -> Iterator[Row]:
    """Case `speed`: the speed test; its costs are saved if it ran with the settings of jobs."""
    rates = calibrate()
    if options.threads is None and options.device == "auto":
        keep(rates)
    yield from figure_rows(rates)


def figure_rows(rates: Rates) -> list[Row]:
    """A row for each measured cost, in English."""
    return [
        {"what": name + (f", {gpu}" if gpu else ""), "figure": _figure(name, cost, gpu)}
        for name, cost, gpu in _costs(rates)
    ]


def figures(rates: Rates) -> tuple[MeasuredRate, ...]:
    """These figures as messages."""
    return tuple(
        MeasuredRate(title=_title(name, gpu), value=_value(name, cost))
        for name, cost, gpu in _costs(rates)
    )


def _costs(rates: Rates) -> Iterator[tuple[str, float, str]]:
    """Name, cost and GPU of all costs; "" for the processor."""
    for gpu, costs in (("", rates.costs), *rates.gpus.items()):
        for name, cost in costs.items():
            yield name, cost, gpu


def _figure(name: str, cost: float, gpu: str) -> str:
    device = "GPU" if gpu else "CPU"
    if name.startswith("open-"):
        return f"{cost:.3g} s per segment"
    if name in _FIXED:
        return f"{cost:.3g} {_FIXED[name]}"
    if name.startswith(_OF_MODELS):
        return f"{1e3 / cost:.3g} billion operations/s on the {device}"
    return f"{1 / cost:.3g} million pixels/s on the {device}"


def _value(name: str, cost: float) -> Message:
    if name in _FIXED or name.startswith("open-"):
        return message("bench.value.seconds", value=f"{cost:.3g}")
    if name.startswith(_OF_MODELS):
        return message("bench.value.gflops", value=f"{1e3 / cost:.3g}")
    return message("bench.value.megapixels", value=f"{1 / cost:.3g}")


def _title(name: str, gpu: str) -> Message:
    title = _cost_title(name)
    return message("bench.cost.on-gpu", cost=title, gpu=gpu) if gpu else title


def _cost_title(name: str) -> Message:
    kind, _, detail = name.partition("-")
    if kind in _CODECS:
        return message("bench.cost.write", codec=_CODECS[kind])
    if kind in ("open", "decode"):
        return message(f"bench.cost.{kind}", codec=_CODECS.get(detail, detail))
    if kind == "lite" and "-" in detail:
        scale, _, dtype = detail.partition("-")
        return message("bench.cost.lite-at-scale", scale=scale, dtype=dtype)
    return message(f"bench.cost.{kind}", dtype=detail)


def _cpu_steps(folder: Path) -> Iterator[Step]:
    if importlib.util.find_spec("av") is not None:  # models alone can be measured without it
        from engine.bench.calibration import film

        yield from film.steps(folder)
    yield from models.steps("cpu")


def _run(steps: list[Step], report: Report, stop: Callable[[], bool], until: float) -> list[Costs]:
    """Costs of each step; none of those for which there was no time."""
    found: list[Costs] = []
    for number, (name, work) in enumerate(steps):
        if stop():
            raise Cancelled
        if time.monotonic() > until:
            break
        report(number, len(steps), name)
        with torch.inference_mode():
            found.append(work())
    report(len(steps), len(steps), None)
    return found


def _joined(found: list[Costs]) -> Costs:
    return {name: cost for costs in found for name, cost in costs.items()}


def _gpu() -> tuple[str, tuple[int, int]] | None:
    """Name in plans and CUDA capability of the GPU that torch can use."""
    if not torch.cuda.is_available():
        return None
    capability = torch.cuda.get_device_capability()
    gpu = devices.in_use()
    spec = gpu_table.find(gpu.name, gpu.total_bytes) if gpu is not None else None
    return name_of(spec, capability), capability
