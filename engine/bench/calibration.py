"""The speed test, alone and, for the window, with every optimisation.

The speed test measures what the work of jobs costs on this computer, in about half a minute on two
cores. Costs are CPU seconds of all threads, which other programs disturb little; on a GPU they are
seconds of the GPU. Plans use them for predicted times. Loads no PyAV: `video_costs` does.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from engine.bench import run
from engine.bench.report import Row, about, machine_of, machine_row, markdown, measured, unmeasured
from engine.bench.run import BenchOptions
from engine.bench.timing import Costs, Step, cost_of
from engine.bench.workload import VaeRun, dit_run, vae_run
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.hardware import devices, gpu_table, torch_memory
from engine.models.contracts import BenchRequest
from engine.models.lite.upscaler import upscaling
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.dit.random_dit import DitRun
from engine.planner import rates as saved
from engine.planner.rates import Rates
from engine.planner.times import name_of
from engine.protocol.report import BenchReport, MeasuredRate
from engine.settings.optimisations import optimisations
from engine.video.write.encoders import ON_PROCESSOR

Report = Callable[[int, int, Message | None], None]  # steps done, of how many, the one that begins
_LIMIT_S = 45.0  # no step begins later: a busy or slow computer keeps the default costs
_FIXED = {"start": "s a job", "frame": "s a frame", "check": "s a frame"}
_LITE_PLUS = "lite-plus"
_OF_MODELS = ("vae", "transformer", _LITE_PLUS)
_ENCODERS = {e.name: e.title for e in ON_PROCESSOR.values()} | {"encoder": "NVENC"}
_VAE_SIZE = {"cpu": Size(128, 128), "cuda": Size(768, 768)}
_DIT_SIZE = {"cpu": Size(320, 192), "cuda": Size(1280, 720)}
_LITE_SIZE = {"cpu": Size(160, 128), "cuda": Size(640, 360)}
_FRAMES = 5
_TERA = 1e12
_CASES = "optimisations"
_OTHER_ROWS = 25  # of those cases that are no switches: choices, all together, slices, tiles...


def calibrate(
    report: Report = lambda done, total, step: None, stop: Callable[[], bool] = lambda: False
) -> Rates:
    """Measure this computer; `keep` makes plans use the result.

    Args:
        report: Called before each step, and at the end with "" as its name.
        stop: Called before each step.

    Raises:
        Cancelled: `stop` returned True.
    """
    threads, until = torch.get_num_threads(), time.monotonic() + _LIMIT_S
    torch.set_num_threads(devices.cpu_threads())
    gpu = _gpu()
    try:
        with tempfile.TemporaryDirectory(prefix="upreel-speed-") as folder:
            steps = [] if gpu is None else list(_model_steps("cuda", gpu[1]))
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
    """Rates as messages."""
    return tuple(
        MeasuredRate(title=_title(name, gpu), value=_value(name, cost))
        for name, cost, gpu in _costs(rates)
    )


def _costs(rates: Rates) -> Iterator[tuple[str, float, str]]:
    """Name, cost and GPU of all costs; "" for the CPU."""
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
    if name in _ENCODERS:
        return message("bench.cost.write", codec=_ENCODERS[name])
    if kind in ("open", "decode"):
        return message(f"bench.cost.{kind}", codec=_ENCODERS.get(detail, detail))
    if name.startswith(_LITE_PLUS):
        return message(f"bench.cost.{_LITE_PLUS}", dtype=name.removeprefix(f"{_LITE_PLUS}-"))
    if kind == "lite" and "-" in detail:
        scale, _, dtype = detail.partition("-")
        return message("bench.cost.lite-at-scale", scale=scale, dtype=dtype)
    return message(f"bench.cost.{kind}", dtype=detail)


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


# --- steps of networks


def _cpu_steps(folder: Path) -> Iterator[Step]:
    if importlib.util.find_spec("av") is not None:  # models can be measured without it
        from engine.bench import video_costs

        yield from video_costs.steps(folder)
    yield from _model_steps("cpu")


def _model_steps(device: str, capability: tuple[int, int] | None = None) -> Iterator[Step]:
    """Steps of VAEs, transformers, Lite and Lite Plus; costs as in `rates.COSTS`."""
    vae, transformer = message("bench.step.vae"), message("bench.step.transformer")
    if device == "cuda":
        has_bf16 = (capability or (8, 0)) >= (8, 0)
        yield vae, partial(_vae, device, "float16")
        yield transformer, partial(_transformer, device, "bfloat16" if has_bf16 else "float16")
        yield message("bench.step.lite"), partial(_lite, device, "float16")
        yield message("bench.step.lite-plus"), partial(_lite, device, "float16", _LITE_PLUS)
    else:
        dtype = "bfloat16" if devices.cpu_has_bf16() else "float32"
        for one in dict.fromkeys(("float32", dtype)):
            yield vae, partial(_vae, device, one)
        yield transformer, partial(_transformer, device, dtype)
        yield message("bench.step.lite-plus"), partial(_lite, device, dtype, _LITE_PLUS)


def _vae(device: str, dtype: str) -> Costs:
    """Cost of the smallest published decoder; the others have the same layers."""
    options = BenchOptions(model="wan-2x", device=device, dtype=dtype, size=_VAE_SIZE[device])
    return _cost_of_run("vae", vae_run(options, "decode"), 5 if device == "cuda" else 2)


def _transformer(device: str, dtype: str) -> Costs:
    """Cost of a narrower transformer, which a CPU can run in seconds."""
    dit = random_dit.MIDDLE["3b"]
    options = BenchOptions(device=device, dtype=dtype, size=_DIT_SIZE[device], dit=dit)
    return _cost_of_run("transformer", dit_run(options, "3b"), 3)


def _cost_of_run(name: str, plain: VaeRun | DitRun, runs: int) -> Costs:
    run = replace(plain, form="fast", frames=_FRAMES)
    units = run.operations / _TERA
    return {f"{name}-{run.dtype}": cost_of(run.ready(), units, device=run.device, runs=runs)}


def _lite(device: str, dtype: str, model: str = "lite") -> Costs:
    """Cost of Lite on a GPU, or of Lite Plus on any device, per operation like other models."""
    request = BenchRequest(device=device, dtype=dtype, size=_LITE_SIZE[device])
    work = upscaling(request, 2, model)
    return {f"{model}-{dtype}": cost_of(work.compute, work.operations / _TERA, device=device)}


# --- the benchmark of the window


def examine(*, quick: bool, report: Report, stop: Callable[[], bool]) -> BenchReport:
    """Measure this computer, and save the costs that the speed test measured for plans.

    Args:
        quick: The speed test alone; else all optimisations too.
        report: Called with each step, and at the end with "" as its name.
        stop: Called between steps.

    Raises:
        Cancelled: `stop` returned True; costs of a finished speed test are saved.
    """
    begin = time.monotonic()
    steps = _StepCount(report, 0 if quick else len(optimisations()) + _OTHER_ROWS)
    with torch_memory.selected():
        rates = calibrate(steps.report_speed_test, stop)
    keep(rates)
    rows: list[Row] = [machine_row()]
    rows += [{"case": "speed", **row} for row in figure_rows(rates)]
    if not quick:
        rows += _switch_rows(steps, stop)
    steps.end()
    return BenchReport(
        machine=machine_of(rows),
        switches=measured(rows) if quick else (*measured(rows), *unmeasured()),
        figures=figures(rates),
        markdown=markdown(rows),
        seconds=time.monotonic() - begin,
        notes=about(rows),
    )


def _switch_rows(steps: _StepCount, stop: Callable[[], bool]) -> list[Row]:
    found = []
    rows = run.measured([_CASES])
    next(rows)  # the computer
    try:
        for row in rows:
            found.append(row)
            steps.next(next((line.title for line in measured([row])), None) or about([row])[0])
            if stop():
                raise Cancelled
    finally:
        rows.close()
    return found


class _StepCount:
    """Counts the steps of both halves; a total that was too small grows."""

    def __init__(self, report: Report, more: int) -> None:
        self._report, self._more = report, more
        self._done = self._total = 0

    def report_speed_test(self, done: int, total: int, step: Message | None) -> None:
        """Take over the count of the speed test."""
        self._done, self._total = done, total + self._more
        self._report(self._done, self._total, step)

    def next(self, step: Message) -> None:
        """One more row was measured."""
        self._done += 1
        self._total = max(self._total, self._done + 1)
        self._report(self._done, self._total, step)

    def end(self) -> None:
        """Everything was measured."""
        self._report(self._total, self._total, None)
