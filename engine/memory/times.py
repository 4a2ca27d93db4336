"""Predicted time of a plan, from its work and the rates of this machine."""

from __future__ import annotations

from engine.memory import rates as r
from engine.memory import wan_needs
from engine.memory.budget import Budget
from engine.memory.family import family_of, tiles_per_frame
from engine.memory.rates import Rates
from engine.plan import Plan

_MOST_CORES = 16  # that work can be spread over


def kind(plan: Plan) -> str:
    """Name under which the speed of such jobs is learned."""
    model = plan.model
    name = f"{model.model}-x{model.scale}"
    if model.weights_files and not model.weights_files[0].published:
        name += "-own"  # says nothing of the published model
    return f"{name}-{model.device}-{plan.picture.encoder}"


def seconds(plan: Plan, budget: Budget, rates: Rates) -> float:
    """Predicted time: all work over the cores it can use, corrected by what was measured here."""
    return 1.0 * rates.factor(kind(plan)) + sum(stage_seconds(plan, budget, rates).values())


def stage_seconds(plan: Plan, budget: Budget, rates: Rates) -> dict[str, float]:
    """The part of each stage, in the order of the work; stages as in `peaks`, and "verify"."""
    cores = min(max(budget.threads, 1), _MOST_CORES)
    factor = rates.factor(kind(plan)) / cores
    return {name: work * factor for name, work in _cpu_seconds(plan).items()}


def error(plan: Plan, rates: Rates) -> float:
    """How far the time may be off, as a share of it."""
    return 0.15 if rates.is_measured(kind(plan)) else 0.5


def is_measured(plan: Plan, rates: Rates) -> bool:
    """Whether the time follows from what was measured on this machine."""
    return rates.is_measured(kind(plan))


def _latent_seconds(plan: Plan) -> dict[str, float]:
    """CPU seconds of making a film of latents, the film written included."""
    latent = plan.latent
    if latent is None:
        return {}
    model = wan_needs.latent_work(latent, plan.source_size, plan.frames)
    model /= r.FLOPS[latent.device, latent.dtype]
    if latent.device == "cuda":
        model *= min(max(plan.model.threads, 1), _MOST_CORES)
    return {"latents": model + plan.source_size.pixels * plan.frames / 1e6 * r.ENCODE["ffv1"]}


def _cpu_seconds(plan: Plan) -> dict[str, float]:
    picture = plan.picture
    source = plan.source_size.pixels * plan.frames / 1e6
    output = picture.size.pixels * plan.frames / 1e6
    return {
        **_latent_seconds(plan),
        "read": source * r.READ,
        **_model_seconds(plan, source),
        "restore": output * r.RESTORE,
        "write": output * r.ENCODE.get(picture.encoder, r.ENCODE_OTHER),
        "verify": output * r.VERIFY,
    }


def _model_seconds(plan: Plan, source: float) -> dict[str, float]:
    model = plan.model
    family = family_of(model)
    if family is not None:
        cores = min(max(model.threads, 1), _MOST_CORES)  # the card works once for all of them
        rate = r.FLOPS[model.device, model.dtype] / (cores if model.device == "cuda" else 1)
        return {name: work / rate for name, work in family.stage_work(model, plan.frames).items()}
    if model.model != "lite":
        return {"upscale": 0.0}
    redone = tiles_per_frame(plan) * model.tile.pixels / plan.source_size.pixels
    rate = (r.LITE_BF16 if model.dtype == "bfloat16" else r.LITE)[model.scale]
    return {"upscale": source * rate * redone}
