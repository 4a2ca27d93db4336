"""Predicted time of a plan, from its work and the rates of this machine."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware import cards, devices
from engine.hardware.cards import Card
from engine.memory import card_speed, diffusion_needs, rates, wan_needs
from engine.memory.budget import Budget
from engine.memory.card_speed import Kind, Streamed
from engine.memory.family import family_of, tiles_per_frame
from engine.memory.rates import Rates
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_multiplications
from engine.plan import ModelPlan, Plan

_MOST_CORES = 16  # that work can be spread over
_READ_THREADS = 2  # of the decoder
_VERIFY_THREADS = 3  # two decoders, and who compares
_START_S = 1.0  # of a job: threads, files, the first call of everything
_LOAD_S = 1e-9  # of a byte of model files: read, checked, brought into shape
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
    factor = known.factor(kind(plan), _card_name(plan.model, budget))
    return fixed_seconds(plan) + factor * work_seconds(plan, budget, known)


def fixed_seconds(plan: Plan) -> float:
    """Seconds that a job takes whatever the length of its film."""
    files = sum(file.bytes for file in plan.model.weights_files)
    latent = plan.latent.vae.bytes if plan.latent else 0
    return _START_S + _LOAD_S * (files + latent)


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
    factor = known.factor(kind(plan), _card_name(plan.model, budget))
    return {name: factor * s for name, s in _alone(plan, budget, known).items()}


def cpu_seconds(plan: Plan, known: Rates) -> float:
    """Processor time of a job on a processor, of all its threads together."""
    factor = known.factor(kind(plan))
    return fixed_seconds(plan) + factor * sum(_processor(plan, known).values())


def model_seconds(model: ModelPlan, frames: int, budget: Budget, known: Rates) -> float:
    """Seconds that the model alone takes for so many frames, without any correction.

    Args:
        model: Of any kind; `model.tiles` says how many tiles a frame of Lite has.
        frames: Of the source.
        budget: The card and the cores.
        known: What is known of their speed.
    """
    if model.device == "cuda":
        return sum(_model_on_card(model, frames, budget, known).values())
    work = _model_on_processor(model, frames, known)
    return sum(work.values()) / _cores(model.threads)


def error(plan: Plan, budget: Budget, known: Rates) -> float:
    """How far the time may be off, as a share of it."""
    card = _card_name(plan.model, budget)
    learned = known.learned(kind(plan), card)
    if learned is not None:
        return min(_GUESSED, max(_LEAST_ERROR, learned.error))
    if plan.model.device == "cuda":
        return _TESTED if known.cards.get(card) else _GUESSED_CARD
    return _TESTED if known.costs else _GUESSED


def is_measured(plan: Plan, budget: Budget, known: Rates) -> bool:
    """Whether the time follows from what was measured on this machine, card included."""
    card = _card_name(plan.model, budget)
    if known.learned(kind(plan), card) is not None:
        return True
    return bool(known.cards.get(card) if plan.model.device == "cuda" else known.costs)


def learn(plan: Plan, seconds: float) -> None:
    """Correct the rates of this machine by a job that has finished.

    Args:
        plan: As the job ended, with the frames that it had.
        seconds: It took, pauses left out.
    """
    card = next((card for card in cards.cards() if card.title == plan.card), None)
    gpus = devices.gpus() if plan.model.device == "cuda" and card is None else ()
    budget = Budget(
        ram_bytes=plan.budget_bytes,
        threads=plan.model.threads,
        card=card,
        capability=gpus[0].capability if gpus else None,
    )
    work = work_seconds(plan, budget, rates.load_rates())
    fixed = fixed_seconds(plan)
    rates.learn(kind(plan), predicted=work, measured=seconds, fixed=fixed, card=plan.card)


# --- all stages


def _alone(plan: Plan, budget: Budget, known: Rates) -> dict[str, float]:
    """Seconds of each stage by itself."""
    cores = _cores(budget.threads)
    found = {name: s / _threads(name, cores) for name, s in _processor(plan, known).items()}
    if plan.model.device != "cuda":
        return found
    device = _model_on_card(_with_tiles(plan), plan.frames, budget, known)
    device["restore"] = card_speed.restore_seconds(
        _card(budget), plan.picture.size.pixels * plan.frames
    )
    if plan.latent is not None and plan.latent.device == "cuda":
        found[_AHEAD] += _latent_on_card(plan, budget, known)
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
            work = wan_needs.latent_work(latent, plan.source_size, plan.frames)
            found[_AHEAD] += work / 1e12 * known.cost(f"vae-{latent.dtype}")
    found["read"] = source * known.cost("read")
    if not on_card:
        found |= _model_on_processor(_with_tiles(plan), plan.frames, known)
        found["restore"] = output * known.cost("restore")
    found["write"] = output * known.cost(picture.encoder)
    found[_BEHIND] = output * known.cost("verify")
    return found


def _with_tiles(plan: Plan) -> ModelPlan:
    """Its model, with the number of tiles where time depends on it."""
    model = plan.model
    return replace(model, tiles=tiles_per_frame(plan)) if model.model == "lite" else model


def _cores(threads: int) -> int:
    return min(max(threads, 1), _MOST_CORES)


def _threads(stage: str, cores: int) -> int:
    """That a stage of the processor can use."""
    return min(cores, {"read": _READ_THREADS, _BEHIND: _VERIFY_THREADS}.get(stage, cores))


# --- the model


def _stages(model: ModelPlan, frames: int) -> dict[str, tuple[Kind, str, float]]:
    """Kind of the work, number format and operations of each stage."""
    family = family_of(model)
    if family is not None:
        vae = model.diffusion.vae_dtype if model.diffusion else model.dtype
        return {
            stage: ("transformer", model.dtype, work)
            if stage == "transformer"
            else ("vae", vae, work)
            for stage, work in family.stage_work(model, frames).items()
        }
    if model.model != "lite":
        return {}
    config = config_from_shapes(registry.weights_shapes(model.weights))
    each = 2 * lite_multiplications(config, model.tile)
    return {"upscale": ("lite", model.dtype, float(each * model.tiles * frames))}


def _model_on_processor(model: ModelPlan, frames: int, known: Rates) -> dict[str, float]:
    """CPU seconds of each stage."""
    if family_of(model) is None:
        if model.model != "lite":
            return {"upscale": 0.0}
        pixels = model.tile.pixels * model.tiles * frames / 1e6
        return {"upscale": pixels * known.cost(f"lite-{model.scale}-{model.dtype}")}
    return {
        stage: work / 1e12 * known.cost(f"{what}-{dtype}")
        for stage, (what, dtype, work) in _stages(model, frames).items()
    }


def _model_on_card(model: ModelPlan, frames: int, budget: Budget, known: Rates) -> dict[str, float]:
    """Device seconds of each stage, weights that are streamed meanwhile included."""
    card, found = _card(budget), dict[str, float]()
    for stage, (what, dtype, work) in _stages(model, frames).items():
        measured = known.card_cost(_card_name(model, budget), f"{what}-{dtype}")
        found[stage] = (
            card_speed.compute_seconds(card, what, dtype, work)
            if measured is None
            else work / 1e12 * measured
        )
    if "transformer" in found:
        streamed = _streamed(model, frames)
        found["transformer"] = card_speed.with_streaming(card, found["transformer"], streamed)
    return found or {"upscale": 0.0}


def _latent_on_card(plan: Plan, budget: Budget, known: Rates) -> float:
    latent = plan.latent
    if latent is None:
        return 0.0
    work = wan_needs.latent_work(latent, plan.source_size, plan.frames)
    measured = known.card_cost(_card_name(plan.model, budget), f"vae-{latent.dtype}")
    if measured is not None:
        return work / 1e12 * measured
    return card_speed.compute_seconds(_card(budget), "vae", latent.dtype, work)


def _streamed(model: ModelPlan, frames: int) -> Streamed:
    """Bytes of the transformer's weights that come to the card for all clips."""
    plan, each = model.diffusion, diffusion_needs.streamed_bytes(model)
    if plan is None or not each:
        return Streamed()
    latents = diffusion_needs.latents_of(plan)
    shared = plan.shared if plan.join == "latents" else -(-plan.shared // diffusion_needs.STEP)
    clips = frames / max(1, (latents - shared) * diffusion_needs.STEP)
    pinned = min(plan.pin_bytes, each)
    return Streamed(pinned=clips * pinned, paged=clips * (each - pinned))


def _card(budget: Budget) -> Card:
    return card_speed.card_of(budget.card, budget.capability)


def _card_name(model: ModelPlan, budget: Budget) -> str:
    """Title of the card that a plan computes on; "" for the processor and for unknown cards."""
    return budget.card.title if model.device == "cuda" and budget.card else ""
