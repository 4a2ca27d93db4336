"""Predicted time of a plan, from its work and the rates of this machine."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware import devices, gpu_table
from engine.hardware.budget import Budget
from engine.models.wan.planning import requirements
from engine.planner import gpu_speed, model_times, rates
from engine.planner.families import tiles_per_frame
from engine.planner.rates import Rates
from engine.protocol.plan import ModelPlan, Plan

_MOST_CORES = 16  # that work can be spread over
_READ_THREADS = 2  # of the decoder
_VERIFY_THREADS = 3  # two decoders, and who compares
_START_S = 0.3  # of a job, waiting: threads, files, the result given its name
_LOAD_S = 1e-9  # of a byte of model files: read, checked, brought to the device
# the same of the fast form of a VAE, whose weights are folded: CPU seconds, measured in float32
_FOLD_S = {"seedvr2": 2.2e-8, "wan": 4e-9}
_DEVICE_THREAD = ("upscale", "encode", "transformer", "decode", "restore")
_BEHIND = "verify"
_AHEAD = "latents"

# how far a time may be off, as a share of it
_GUESSED_CARD = 0.6
_GUESSED = 0.5
_TESTED = 0.25
_LEAST_ERROR = 0.08


def kind(plan: Plan) -> str:
    """Name under which the speed of such jobs is learned."""
    model = plan.model
    name = f"{model.model}-x{model.scale}"
    if model.weights_files and not model.weights_files[0].published:
        name += "-own"  # says nothing of the published model
    return f"{name}-{model.device}-{plan.picture.encoder}"


def seconds(plan: Plan, budget: Budget, known: Rates) -> float:
    """Predicted time from start to finish, corrected by what was measured here."""
    factor = known.factor(kind(plan), model_times.card_name(plan.model, budget))
    return fixed_seconds(plan, known) + factor * work_seconds(plan, budget, known)


def fixed_seconds(plan: Plan, known: Rates) -> float:
    """Seconds that a job takes whatever the length of its film."""
    return _START_S + known.cost("start") + _loading(plan) / _cores(plan.model.threads)


def _loading(plan: Plan) -> float:
    """CPU seconds of getting the model ready."""
    model, found = plan.model, 0.0
    found += _LOAD_S * sum(file.bytes for file in model.weights_files)
    if model.diffusion is not None:
        found += _FOLD_S["seedvr2"] * model.diffusion.vae.bytes
    if model.wan is not None:
        found += _FOLD_S["wan"] * model.wan.vae.bytes
    if plan.latent is not None:
        found += (_LOAD_S + _FOLD_S["wan"]) * plan.latent.vae.bytes
    return found


def work_seconds(plan: Plan, budget: Budget, known: Rates) -> float:
    """Seconds of the work itself without any correction: stages run beside each other.

    What limits them is the card, or all cores together, or what one thread does alone.
    """
    found = _alone(plan, budget, known)
    around = found.pop(_AHEAD, 0.0) + found.pop(_BEHIND, 0.0)
    on_processor = {name: s for name, s in found.items() if not _on_card(plan, name)}
    cores = _cores(budget.threads)
    shared = sum(s * _threads(name, cores) for name, s in on_processor.items()) / cores
    one_thread = sum(found[name] for name in _DEVICE_THREAD if name in found)
    return around + max(shared, one_thread, *found.values())


def stage_seconds(plan: Plan, budget: Budget, known: Rates) -> dict[str, float]:
    """What each stage would take by itself, in the order of the work.

    Stages as in `peaks`, and "verify". On a card they run beside those of the processor, so that a
    job takes less than their sum.
    """
    factor = known.factor(kind(plan), model_times.card_name(plan.model, budget))
    return {name: factor * s for name, s in _alone(plan, budget, known).items()}


def cpu_seconds(plan: Plan, known: Rates) -> float:
    """Processor time of a job on a processor, of all its threads together."""
    factor = known.factor(kind(plan))
    work = sum(_processor(plan, known).values())
    return known.cost("start") + _loading(plan) + factor * work


def model_seconds(model: ModelPlan, frames: int, budget: Budget, known: Rates) -> float:
    """Seconds that the model alone takes for so many frames, without any correction.

    Args:
        model: Of any kind; `model.tiles` says how many tiles a frame of Lite has.
        frames: Of the source.
        budget: The card and the cores.
        known: What is known of their speed.
    """
    if model.device == "cuda":
        return sum(model_times.on_card(model, frames, budget, known).values())
    work = model_times.on_processor(model, frames, known)
    return sum(work.values()) / _cores(model.threads)


def error(plan: Plan, budget: Budget, known: Rates) -> float:
    """How far the time may be off, as a share of it."""
    learned = known.learned(kind(plan), model_times.card_name(plan.model, budget))
    if learned is not None:
        return min(_GUESSED, max(_LEAST_ERROR, 2 * learned.error))
    if _is_tested(plan, budget, known):
        return _TESTED
    return _GUESSED_CARD if plan.model.device == "cuda" else _GUESSED


def is_measured(plan: Plan, budget: Budget, known: Rates) -> bool:
    """Whether the time follows from what was measured on this machine, card included."""
    learned = known.learned(kind(plan), model_times.card_name(plan.model, budget))
    return learned is not None or _is_tested(plan, budget, known)


def _is_tested(plan: Plan, budget: Budget, known: Rates) -> bool:
    """Whether the speed test has measured what takes most of the time."""
    names = model_times.cost_names(plan.model)
    if plan.model.device == "cuda" and names:
        return names <= set(known.cards.get(model_times.card_name(plan.model, budget), ()))
    return (names or {"read"}) <= set(known.costs)


def learn(plan: Plan, seconds: float) -> None:
    """Correct the rates of this machine by a job that has finished.

    Args:
        plan: As the job ended, with the frames that it had.
        seconds: It took, pauses left out.
    """
    card = next((card for card in gpu_table.gpu_specs() if card.title == plan.card), None)
    gpus = devices.gpus() if plan.model.device == "cuda" and card is None else ()
    budget = Budget(
        ram_bytes=plan.budget_bytes,
        threads=plan.model.threads,
        gpu=card,
        capability=gpus[0].capability if gpus else None,
    )
    known = rates.load_rates()
    work = work_seconds(plan, budget, known)
    fixed = fixed_seconds(plan, known)
    card_name = model_times.card_name(plan.model, budget)
    rates.learn(kind(plan), predicted=work, measured=seconds, fixed=fixed, card=card_name)


# --- all stages


def _alone(plan: Plan, budget: Budget, known: Rates) -> dict[str, float]:
    """Seconds of each stage by itself."""
    cores = _cores(budget.threads)
    found = {name: s / _threads(name, cores) for name, s in _processor(plan, known).items()}
    if plan.model.device != "cuda":
        return found
    device = model_times.on_card(_with_tiles(plan), plan.frames, budget, known)
    device["restore"] = gpu_speed.restore_seconds(
        model_times.card_of(budget), plan.picture.size.pixels * plan.frames
    )
    if plan.latent is not None and plan.latent.device == "cuda":
        found[_AHEAD] += model_times.latent_on_card(plan, budget, known)
    order = (_AHEAD, "read", *_DEVICE_THREAD, "write", _BEHIND)
    return {name: (found | device)[name] for name in order if name in found | device}


def _on_card(plan: Plan, stage: str) -> bool:
    return plan.model.device == "cuda" and stage in _DEVICE_THREAD


def _processor(plan: Plan, known: Rates) -> dict[str, float]:
    """CPU seconds of what the processor does, in the order of the work."""
    picture, on_card = plan.picture, plan.model.device == "cuda"
    source = plan.source_size.pixels * plan.frames / 1e6
    output = picture.size.pixels * plan.frames / 1e6
    latent, found = plan.latent, dict[str, float]()
    if latent is not None:
        found[_AHEAD] = source * known.cost("ffv1")
        if latent.device != "cuda":
            work = requirements.latent_work(latent, plan.source_size, plan.frames)
            found[_AHEAD] += work / 1e12 * known.cost(f"vae-{latent.dtype}")
    found["read"] = source * known.cost("read") + plan.frames * known.cost("frame")
    if not on_card:
        found |= model_times.on_processor(_with_tiles(plan), plan.frames, known)
        found["restore"] = output * known.cost("restore")
        if not _is_exact(plan):
            found["restore"] += output * known.cost("resize")
    found["write"] = output * known.cost(picture.encoder)
    segments = -(-plan.frames // plan.segment_frames)
    found["write"] += segments * known.cost(f"open-{picture.encoder}")
    decoding = known.cost(f"decode-{picture.encoder}") - known.cost("decode-libx264")
    each = max(known.cost("verify") + decoding, known.cost("verify") / 2)
    found[_BEHIND] = output * each + plan.frames * known.cost("check")
    return found


def _is_exact(plan: Plan) -> bool:
    """Whether the model makes pictures of the size that is wanted."""
    model = plan.model
    made = model.diffusion.size if model.diffusion else plan.source_size.scaled(model.scale)
    return plan.picture.size in (made, made.transposed())


def _with_tiles(plan: Plan) -> ModelPlan:
    """Its model, with the number of tiles where time depends on it."""
    model = plan.model
    return replace(model, tiles=tiles_per_frame(plan)) if model.model == "lite" else model


def _cores(threads: int) -> int:
    return min(max(threads, 1), _MOST_CORES)


def _threads(stage: str, cores: int) -> int:
    """That a stage of the processor can use."""
    return min(cores, {"read": _READ_THREADS, _BEHIND: _VERIFY_THREADS}.get(stage, cores))
