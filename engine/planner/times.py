"""Predicted time of a plan, from its work and the rates of this machine.

GPUs differ by what their matrix units, their memory and the link to main memory can do at most
(`resources/gpus.toml`). The shares of it that convolutions, products and passes reach come from an
H100 that ran Upreel and from public logs of RTX GPUs (`docs/predictions.md`); Upreel has run on
none of those. The speed test and every finished job correct them for the GPU they ran on.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.hardware import devices, gpu_table
from engine.hardware.budget import Budget
from engine.hardware.gpu_table import Generation, GpuSpec, counted_gpu
from engine.models import registry
from engine.models.contracts import StageWork
from engine.planner import rates, sharing, workers
from engine.planner.rates import Learned, Rates, Spread
from engine.protocol.plan import Plan, WorkPlan

_MOST_CORES = 16  # that work can be spread over
_READ_THREADS = 2  # of the decoder
_VERIFY_THREADS = 3  # two decoders, and the comparison
_START_S = 0.3  # of a job, waiting: threads, files, the result given its name
_LOAD_S = 1e-9  # of a byte of model files: read, checked, brought to the device
_WORKERS_S = 3.0  # until worker processes have loaded their libraries
LAST = "verify"
FIRST = "latents"
_OTHER_THREADS = ("read", "write")  # all other stages take turns in the device's thread


# A GPU that was never measured: the lower end has room for our kernel of convolutions, the upper
# one holds reports of users, whose GPUs were short of memory or throttled; docs/predictions.md.
GUESSED_GPU = Spread(0.65, 2.5)
_GUESSED = Spread.of_error(1.0)
_TESTED_GPU = Spread(0.7, 1.6)  # convolutions and products; not how well stages overlap
_TESTED = Spread.of_error(0.3)
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
    on_gpu = plan.work.device == "cuda"
    if learned is not None:
        return Spread.of_error(min(_MOST_ERROR, max(_LEAST_ERROR, 2 * learned.error)))
    if _is_tested(plan, budget, known):
        return _TESTED_GPU if on_gpu else _TESTED
    return GUESSED_GPU if on_gpu else _GUESSED


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
    on_gpu["restore"] = restore_seconds(gpu_of(budget), plan.picture.size.pixels * plan.frames)
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
    found["write"] = output * known.cost(picture.encoder)
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
        found[name] = units * known.cost(cost)
    return found or {"upscale": 0.0}


def _on_gpu(work: WorkPlan, frames: int, budget: Budget, known: Rates) -> dict[str, float]:
    """Device seconds of each stage of the model, weights that are streamed meanwhile included."""
    gpu, title, found = gpu_of(budget), gpu_title(work, budget), dict[str, float]()
    for name, stage in registry.family_of(work).stage_work(work, frames).items():
        cost, units = stage.cost(work.device)
        measured = known.gpu_cost(title, cost)
        found[name] = compute_seconds(gpu, stage) if measured is None else units * measured
        if stage.pinned_bytes or stage.paged_bytes:
            copying = copy_seconds(gpu, stage.pinned_bytes, stage.paged_bytes)
            found[name] = with_copying(found[name], copying)
        found[name] += copy_seconds(gpu, stage.parked_pinned_bytes, stage.parked_bytes)
        found[name] += stage.moved_bytes / (gpu.bandwidth * SHARES.bandwidth)
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


# --- speed of a GPU of which nothing was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of the theoretical maximum of a GPU that kinds of work reach.

    docs/predictions.md has the source of each, and compares the sums with reports of users.

    Attributes:
        convolutions: Share of the matrix units that cuDNN's convolutions reach, in half precision
            with sums in float32.
        products: Share that large matrix products reach.
        single_head: Share that attention with one head of 512 channels reaches.
        bandwidth: Share of the memory's bandwidth that passes reach.
    """

    convolutions: float = 0.79
    products: float = 0.95
    single_head: float = 0.15
    bandwidth: float = 0.7


SHARES = Shares()
# Of the same share; on Turing large products reach less of the maximum.
OF_GENERATION: dict[Generation, float] = {"turing": 0.87, "ampere": 1, "ada": 1, "blackwell": 1}
UNCOUNTED = 1.1  # times the seconds of all counted parts is what an H100 took
LAUNCH_S = 45e-6  # of the host for a kernel
_LITE_SHARE = 0.2  # a guess
_SINGLE_SHARE = 0.5  # in float32, which the matrix units do not compute
_LITE_INTENSITY = 60  # operations of its few channels for a byte in half precision
_PINNED_SHARE, _PAGED_SHARE = 0.8, 0.3  # of the link, from pinned memory and from any other
_EXPOSED = 0.1  # of the shorter of computing and copying is not hidden by the other
_RESTORE_BYTES = 100  # moved for a pixel of the result: exact size, colours, code values
_TRANSFER_BYTES = 6  # of a pixel that goes to main memory
_HALF = ("float16", "bfloat16")


def compute_seconds(
    gpu: GpuSpec, stage: StageWork, shares: Shares = SHARES, *, convolutions: float = 1.0
) -> float:
    """Seconds of the operations and passes of a stage: everything that the speed test measures.

    TRAP: the convolutions are cuDNN's. Kernels of ours with sums in float16 are not counted, as
    none has run on such a GPU: what the speed test and finished jobs measure has them in it.

    Args:
        gpu: Specification with its theoretical maxima; GPUs before Ampere do not multiply bfloat16
            in matrix units.
        stage: Its work.
        shares: Shares of those maxima that it reaches.
        convolutions: Factor by which they are faster than cuDNN's.
    """
    if stage.kind == "lite":
        return _lite_seconds(gpu, stage)
    others = stage.operations - stage.products
    if _is_half(gpu, stage.dtype):
        rate = gpu.half_flops * OF_GENERATION[gpu.generation]
        is_vae = stage.kind == "vae"
        product_rate = rate * (shares.single_head if is_vae else shares.products)
        multiplying = others / (rate * shares.convolutions * convolutions)
        multiplying += stage.products / product_rate
    else:
        multiplying = stage.operations / (gpu.single_flops * _SINGLE_SHARE)
    passing = stage.passed_bytes / (gpu.bandwidth * shares.bandwidth)
    return max(UNCOUNTED * (multiplying + passing), LAUNCH_S * stage.launches)


def _lite_seconds(gpu: GpuSpec, stage: StageWork) -> float:
    is_half = _is_half(gpu, stage.dtype)
    rate = gpu.half_flops * _LITE_SHARE if is_half else gpu.single_flops * _SINGLE_SHARE
    moved = stage.operations / _LITE_INTENSITY * (1 if stage.dtype in _HALF else 2)
    return max(stage.operations / rate, moved / (gpu.bandwidth * SHARES.bandwidth))


def _is_half(gpu: GpuSpec, dtype: str) -> bool:
    """Whether the matrix units compute in a type."""
    return dtype in _HALF and not (dtype == "bfloat16" and gpu.capability < (8, 0))


def copy_seconds(gpu: GpuSpec, pinned_bytes: float, paged_bytes: float) -> float:
    """Seconds of copying between the GPU and pinned main memory, and any other."""
    link = gpu.link_bandwidth
    return pinned_bytes / (link * _PINNED_SHARE) + paged_bytes / (link * _PAGED_SHARE)


def with_copying(computing: float, copying: float) -> float:
    """Seconds of a stage whose weights are copied while it computes; most of it hides."""
    return max(computing, copying) + _EXPOSED * min(computing, copying)


def restore_seconds(gpu: GpuSpec, pixels: float) -> float:
    """Seconds of bringing n pixels of the result to their size and colours, and away."""
    moving = pixels * _RESTORE_BYTES / (gpu.bandwidth * SHARES.bandwidth)
    return moving + pixels * _TRANSFER_BYTES / (gpu.link_bandwidth * _PAGED_SHARE)
