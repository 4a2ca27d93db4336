"""Predicted time of a plan, from its work and the rates of this machine.

Seconds on a GPU are those of `gpu_speed` until something was measured on it: the speed test and
every finished job correct them for the GPU they ran on.
"""

from __future__ import annotations

from engine.hardware import devices, gpu_table
from engine.hardware.budget import Budget
from engine.hardware.gpu_table import GpuSpec, counted_gpu
from engine.models import registry
from engine.models.contracts import StageWork
from engine.planner import gpu_speed, rates, sharing, workers
from engine.planner.gpu_speed import Case
from engine.planner.rates import Learned, Rates, Spread
from engine.protocol.plan import Plan, WorkPlan
from engine.video.write.encoders import ENCODERS

_MOST_CORES = 16  # that work can be spread over
_READ_THREADS = 2  # of the decoder
_VERIFY_THREADS = 3  # two decoders, and the comparison
_START_S = 0.3  # of a job, waiting: threads, files, the result given its name
_LOAD_S = 1e-9  # of a byte of model files: read, checked, brought to the device
_WORKERS_S = 3.0  # until worker processes have loaded their libraries
LAST = "verify"
FIRST = "latents"
_OTHER_THREADS = ("read", "write")  # all other stages take turns in the device's thread


# A GPU that was never measured. The lower end is the tenth by which counted and measured times of
# an H100 differ, and what else the best case brings; the upper one holds reports of users, whose
# GPUs were short of memory or throttled, and the worst case; docs/predictions.md.
GUESSED_GPU = Spread(0.9, 2.5)
_GUESSED = Spread.of_error(1.0)
_TESTED_GPU = Spread(0.7, 1.6)  # convolutions and products; not how well stages overlap
_TESTED = Spread.of_error(0.3)
# Times as long as products in float32 take those of a transformer's blocks on a CPU with AVX-512
# VNNI (docs/benchmarks/products.md, whole forwards: 1.8 and 6.3 CPU seconds for 3.8).
_NARROW = {"int8": 0.45, "fp8": 1.7}
_LEAST_ERROR, _MOST_ERROR = 0.08, 0.5  # of what jobs taught


def kind(plan: Plan) -> str:
    """Name under which the speed of such jobs is learned."""
    work = plan.work
    name = f"{work.model}-x{work.scale}"
    if work.weights_files and not work.weights_files[0].published:
        name += "-own"  # says nothing of the published model
    if plan.first_pass is not None:
        name += "-cleaned"
    return f"{name}-{work.device}-{plan.picture.encoder}"


def memory_factor(plan: Plan, budget: Budget, known: Rates) -> float:
    """Bytes of the GPU for a planned one, as earlier jobs of this kind taught; 1 or more."""
    found = (known.learned(kind(plan), title) for title in _gpu_titles(plan, budget))
    return max(1.0 if one is None else one.memory_factor for one in found)


def seconds(plan: Plan, budget: Budget, known: Rates) -> float:
    """Predicted time from start to finish, corrected by what was measured here."""
    if plan.workers and budget.gpus:
        work = _seconds_together(plan, budget, known)
    else:
        factor = known.factor(kind(plan), gpu_title(plan.work, budget))
        work = factor * work_seconds(plan, budget, known)
    return fixed_seconds(plan, known) + work


def _seconds_together(plan: Plan, budget: Budget, known: Rates) -> float:
    """Seconds of the work of several GPUs, each corrected by what was measured of it."""
    around, shared, _ = work_parts(plan, budget, known)
    together = sharing.shared_out(plan, frame_rates(plan, budget, known)).seconds
    on_processor = shared * (1 + workers.made_twice(plan))
    return around + max(on_processor, together, survey_seconds(plan, budget, known))


def frame_rates(plan: Plan, budget: Budget, known: Rates) -> tuple[float, ...]:
    """Frames/s of each GPU of a plan for several, as if it were alone; corrected."""
    return tuple(
        plan.frames
        / known.factor(kind(plan), gpu_title(plan.work, one))
        / work_parts(plan, one, known)[2]
        for one in budget.gpus
    )


def survey_seconds(plan: Plan, budget: Budget, known: Rates) -> float:
    """Seconds of reading the video ahead of the processes that share it."""
    factor = known.factor(kind(plan)) if plan.work.device == "cpu" else 1.0
    return factor * stages_alone(plan, budget, known)["read"]


def fixed_seconds(plan: Plan, known: Rates) -> float:
    """Seconds that a job takes whatever the length of its video."""
    start = _START_S + (_WORKERS_S if plan.workers else 0.0)
    return start + known.cost("start") + _loading(plan) / _cores(plan.work.threads)


def _loading(plan: Plan) -> float:
    """CPU seconds of getting the model ready."""
    found = 0.0
    first = registry.decoding(plan)
    for work in (*plan.passes, *([] if first is None else [first])):
        found += _LOAD_S * sum(file.bytes for file in work.weights_files)
        found += registry.family_of(work).loading_seconds(work)
    return found


def work_seconds(plan: Plan, budget: Budget, known: Rates) -> float:
    """Seconds of the work itself without any correction: stages run at the same time.

    The limit is the GPU, all cores together, or what one thread does alone.
    """
    around, shared, alone = work_parts(plan, budget, known)
    twice = workers.made_twice(plan) if plan.workers else 0.0
    return around + max(shared, alone / max(1, len(plan.workers))) * (1 + twice)


def work_parts(plan: Plan, budget: Budget, known: Rates) -> tuple[float, float, float]:
    """Seconds before and after the work, of it on all cores, and of a process that is alone."""
    found = stages_alone(plan, budget, known)
    around = found.pop(FIRST, 0.0) + found.pop(LAST, 0.0)
    on_processor = {name: s for name, s in found.items() if not _is_on_gpu(plan, name)}
    cores, own = _cores(budget.threads), _own_cores(plan, budget)
    shared = sum(s * _threads(name, own) for name, s in on_processor.items()) / cores
    one_thread = sum(s for name, s in found.items() if name not in _OTHER_THREADS)
    return around, shared, max(one_thread, *found.values())


def _own_cores(plan: Plan, budget: Budget) -> int:
    """Cores that one process computes on."""
    return _cores(plan.work.threads if plan.workers else budget.threads)


def stage_seconds(plan: Plan, budget: Budget, known: Rates) -> dict[str, float]:
    """Seconds of each stage by itself, in the order of the work.

    Stages as in `peaks`, and "verify". Some overlap: a job on a GPU takes less than their sum.
    """
    factor = known.factor(kind(plan), gpu_title(plan.work, budget))
    return {name: factor * s for name, s in stages_alone(plan, budget, known).items()}


def cpu_seconds(plan: Plan, known: Rates) -> float:
    """CPU time of a job on a CPU, of all its threads together; `tools.reports.prediction`."""
    factor = known.factor(kind(plan))
    work = sum(_processor(plan, known).values())
    return known.cost("start") + _loading(plan) + factor * work


def model_seconds(work: WorkPlan, frames: int, budget: Budget, known: Rates) -> float:
    """Seconds that the model alone takes for n frames, without any correction.

    Args:
        work: Work of any family.
        frames: Number of frames of the source.
        budget: The GPU and the cores.
        known: Knowledge of their speed.
    """
    if work.device == "cuda":
        return sum(_on_gpu(work, frames, budget, known).values())
    return sum(_on_processor(work, frames, known).values()) / _cores(work.threads)


def spread(plan: Plan, budget: Budget, known: Rates) -> Spread:
    """Range of the time: wide for a guess, narrower after the speed test and after jobs."""
    found = [_spread(plan, one, known) for one in budget.gpus or (budget,)]
    return Spread(min(one.low for one in found), max(one.high for one in found))


def _spread(plan: Plan, budget: Budget, known: Rates) -> Spread:
    """Seconds on one GPU, or on the CPU."""
    learned = known.learned(kind(plan), gpu_title(plan.work, budget))
    on_gpu, is_known = plan.work.device == "cuda", True
    if learned is not None:
        found = Spread.of_error(min(_MOST_ERROR, max(_LEAST_ERROR, 2 * learned.error)))
    elif _is_tested(plan, budget, known):
        found = _TESTED_GPU if on_gpu else _TESTED
    else:
        found, is_known = GUESSED_GPU if on_gpu else _GUESSED, False
    if not on_gpu:
        return found
    low, high = (_case_factor(plan, budget, case, is_known) for case in ("best", "worst"))
    return Spread(found.low * low, found.high * high)


def _case_factor(plan: Plan, budget: Budget, case: Case, is_known: bool) -> float:
    """Seconds of the models on a GPU in a case, of the likely ones.

    Args:
        plan: Plan of the job.
        budget: The GPU.
        case: "best" or "worst".
        is_known: Whether the usual work was measured on it: only what differs is uncertain.
    """
    gpu, found, likely = gpu_of(budget), 0.0, 0.0
    for work in plan.passes:
        usual = tested_work(work, plan.frames) if is_known else {}
        for name, stage in registry.family_of(work).stage_work(work, plan.frames).items():
            seconds = gpu_speed.compute_seconds(gpu, stage)
            likely += gpu_speed.copied(gpu, stage, seconds)
            if stage != usual.get(name):
                seconds = gpu_speed.compute_seconds(gpu, stage, case=case)
            found += gpu_speed.copied(gpu, stage, seconds)
    return found / likely if likely else 1.0


def tested_work(work: WorkPlan, frames: int) -> dict[str, StageWork]:
    """Work of each stage with the switches and formats that the speed test measures."""
    family = registry.family_of(work)
    return family.stage_work(family.as_tested(work), frames)


def is_measured(plan: Plan, budget: Budget, known: Rates) -> bool:
    """Whether the time follows from what was measured on this machine, its GPUs included."""
    return all(
        known.learned(kind(plan), gpu_title(plan.work, one)) is not None
        or _is_tested(plan, one, known)
        for one in budget.gpus or (budget,)
    )


def _is_tested(plan: Plan, budget: Budget, known: Rates) -> bool:
    """Whether the speed test has measured what takes most of the time."""
    work = plan.work
    stages = registry.family_of(work).stage_work(work, 1).values()
    names = {stage.cost(work.device)[0] for stage in stages if stage.operations}
    if work.device == "cuda" and names:
        return names <= set(known.gpus.get(gpu_title(work, budget), ()))
    return (names or {"read"}) <= set(known.costs)


# --- what finished jobs teach


def learn(plan: Plan, seconds: float, memory: float | None = None) -> Learned | None:
    """Correct the rates of this machine by a job that has finished; returns as `rates.learn`.

    Args:
        plan: Plan at the end of the job, with the frames that it had.
        seconds: It took, pauses left out.
        memory: Its most bytes on the GPU over the planned ones; None: not measured.
    """
    budget, known = budget_of(plan), rates.load_rates()
    return rates.learn(
        kind(plan),
        predicted=work_seconds(plan, budget, known),
        measured=seconds,
        fixed=fixed_seconds(plan, known),
        gpu=gpu_title(plan.work, budget),
        memory=memory,
    )


def budget_of(plan: Plan) -> Budget:
    """Budget that a plan used of this computer; 0 bytes where it does not say."""
    gpu = next((gpu for gpu in gpu_table.gpu_specs() if gpu.title == plan.card), None)
    is_other = plan.work.device == "cuda" and gpu is None
    own = devices.chosen(plan.gpu, devices.gpus()) if is_other else None
    capability = None if own is None else own.capability
    return Budget(
        ram_bytes=plan.budget_bytes,
        threads=plan.work.threads,
        vram_bytes=plan.device_budget_bytes,
        gpu=gpu,
        capability=capability if gpu is None else gpu.capability,
    )


# --- all stages


def stages_alone(plan: Plan, budget: Budget, known: Rates) -> dict[str, float]:
    """Seconds of each stage by itself."""
    cores, own = _cores(budget.threads), _own_cores(plan, budget)
    found = {
        name: s / _threads(name, cores if name in (FIRST, LAST) else own)
        for name, s in _processor(plan, known).items()
    }
    if plan.work.device != "cuda":
        return found
    on_gpu = {
        _of_pass(plan, work, stage): seconds
        for work in plan.passes
        for stage, seconds in _on_gpu(work, plan.frames, budget, known).items()
    }
    on_gpu["restore"] = gpu_speed.restore_seconds(
        gpu_of(budget), plan.picture.size.pixels * plan.frames
    )
    first = registry.decoding(plan)
    if first is not None and first.device == "cuda":
        found[FIRST] += sum(_on_gpu(first, plan.frames, budget, known).values())
    order = (FIRST, "read", *on_gpu, "write", LAST)
    return {name: (found | on_gpu)[name] for name in order if name in found | on_gpu}


def _of_pass(plan: Plan, work: WorkPlan, stage: str) -> str:
    """Name in a job of a stage of one of its models."""
    return "clean" if work is plan.first_pass else stage


def _is_on_gpu(plan: Plan, stage: str) -> bool:
    return plan.work.device == "cuda" and stage not in _OTHER_THREADS


def _processor(plan: Plan, known: Rates) -> dict[str, float]:
    """CPU seconds of what the CPU does, in the order of the work."""
    picture, on_gpu = plan.picture, plan.work.device == "cuda"
    source = plan.source_size.pixels * plan.frames / 1e6
    output = picture.size.pixels * plan.frames / 1e6
    first, found = registry.decoding(plan), dict[str, float]()
    if first is not None:
        found[FIRST] = source * known.cost("ffv1")
        if first.device != "cuda":
            found[FIRST] += sum(_on_processor(first, plan.frames, known).values())
    found["read"] = source * known.cost("read") + plan.frames * known.cost("frame")
    if not on_gpu:
        for work in plan.passes:
            taken = _on_processor(work, plan.frames, known).items()
            found |= {_of_pass(plan, work, stage): seconds for stage, seconds in taken}
        found["restore"] = output * known.cost("restore") + _resizing(plan, known)
    speed = ENCODERS[picture.encoder].speed_of(picture.options)
    found["write"] = output * speed.cost * known.cost(picture.encoder)
    segments = -(-plan.frames // plan.segment_frames)
    found["write"] += segments * known.cost(f"open-{picture.encoder}")
    decoding = known.cost(f"decode-{picture.encoder}") - known.cost("decode-libx264")
    each = max(known.cost("verify") + decoding, known.cost("verify") / 2)
    found[LAST] = output * each + plan.frames * known.cost("check")
    return found


def _resizing(plan: Plan, known: Rates) -> float:
    """CPU seconds of bringing the model's pictures to the size that is wanted."""
    made, wanted = plan.work.canvas.pixels, plan.picture.size.pixels
    name, pixels = ("reduce", made) if made > wanted else ("resize", wanted)
    return pixels * plan.frames / 1e6 * known.cost(name) if made != wanted else 0.0


def _cores(threads: int) -> int:
    return min(max(threads, 1), _MOST_CORES)


def _threads(stage: str, cores: int) -> int:
    """Number of threads a stage on the CPU can use."""
    return min(cores, {"read": _READ_THREADS, LAST: _VERIFY_THREADS}.get(stage, cores))


# --- the model


def _on_processor(work: WorkPlan, frames: int, known: Rates) -> dict[str, float]:
    """CPU seconds of each stage of the model."""
    stages = registry.family_of(work).stage_work(work, frames)
    found = {}
    for name, stage in stages.items():
        cost, units = stage.cost(work.device)
        if stage.narrow and stage.dtype == "float32":
            share = stage.narrow / stage.operations
            units *= 1 + share * (_NARROW.get(stage.narrow_format, 1.0) - 1)
        found[name] = units * known.cost(cost)
    return found or {"upscale": 0.0}


def _on_gpu(work: WorkPlan, frames: int, budget: Budget, known: Rates) -> dict[str, float]:
    """Device seconds of each stage of the model, weights that are streamed meanwhile included.

    A measured cost is that of the usual switches: others take as much longer as they are counted.
    """
    gpu, title, found = gpu_of(budget), gpu_title(work, budget), dict[str, float]()
    stages = registry.family_of(work).stage_work(work, frames)
    usual = tested_work(work, frames) if title in known.gpus else stages
    for name, stage in stages.items():
        seconds = gpu_speed.compute_seconds(gpu, stage)
        cost, units = usual[name].cost(work.device)
        measured = known.gpu_cost(title, cost)
        if measured is not None and units:
            seconds *= units * measured / gpu_speed.compute_seconds(gpu, usual[name])
        found[name] = gpu_speed.copied(gpu, stage, seconds)
    return found or {"upscale": 0.0}


def gpu_of(budget: Budget) -> GpuSpec:
    """The GPU that a job counts with."""
    return counted_gpu(budget.gpu, budget.capability)


def gpu_title(work: WorkPlan, budget: Budget) -> str:
    """Key of the speed of the GPU that a plan computes on; "" for the CPU."""
    return name_of(budget.gpu, budget.capability) if work.device == "cuda" else ""


def _gpu_titles(plan: Plan, budget: Budget) -> set[str]:
    return {gpu_title(plan.work, one) for one in budget.gpus or (budget,)}


def name_of(gpu: GpuSpec | None, capability: tuple[int, int] | None) -> str:
    """The title of a GPU; where it is in no table its CUDA capability has to do."""
    if gpu is not None:
        return gpu.title
    return "CUDA {}.{}".format(*(capability or (0, 0)))
