"""Seconds that a model takes, stage by stage, on a processor or a card."""

from __future__ import annotations

from engine.hardware.budget import Budget
from engine.hardware.gpu_table import GpuSpec
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_multiplications
from engine.models.seedvr2.planning import requirements as seedvr2
from engine.models.wan.planning import requirements as wan
from engine.planner import gpu_speed
from engine.planner.families import family_of
from engine.planner.gpu_speed import Kind, Streamed
from engine.planner.rates import Rates
from engine.protocol.plan import ModelPlan, Plan


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


def cost_names(model: ModelPlan) -> set[str]:
    """What of `rates.COSTS`, or of a card's costs, its time follows from; none without a model."""
    if model.model == "lite" and model.device != "cuda":
        return {f"lite-{model.scale}-{model.dtype}"}
    return {f"{what}-{dtype}" for what, dtype, _ in _stages(model, 1).values()}


def on_processor(model: ModelPlan, frames: int, known: Rates) -> dict[str, float]:
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


def on_card(model: ModelPlan, frames: int, budget: Budget, known: Rates) -> dict[str, float]:
    """Device seconds of each stage, weights that are streamed meanwhile included."""
    card, found = card_of(budget), dict[str, float]()
    for stage, (what, dtype, work) in _stages(model, frames).items():
        measured = known.card_cost(card_name(model, budget), f"{what}-{dtype}")
        found[stage] = (
            gpu_speed.compute_seconds(card, what, dtype, work)
            if measured is None
            else work / 1e12 * measured
        )
    if "transformer" in found:
        streamed = _streamed(model, frames)
        found["transformer"] = gpu_speed.with_streaming(card, found["transformer"], streamed)
    return found or {"upscale": 0.0}


def latent_on_card(plan: Plan, budget: Budget, known: Rates) -> float:
    """Device seconds of decoding a source of latents; 0 for any other source."""
    latent = plan.latent
    if latent is None:
        return 0.0
    work = wan.latent_work(latent, plan.source_size, plan.frames)
    measured = known.card_cost(card_name(plan.model, budget), f"vae-{latent.dtype}")
    if measured is not None:
        return work / 1e12 * measured
    return gpu_speed.compute_seconds(card_of(budget), "vae", latent.dtype, work)


def _streamed(model: ModelPlan, frames: int) -> Streamed:
    """Bytes of the transformer's weights that come to the card for all clips."""
    plan, each = model.diffusion, seedvr2.streamed_bytes(model)
    if plan is None or not each:
        return Streamed()
    latents = seedvr2.latents_of(plan)
    shared = plan.shared if plan.join == "latents" else -(-plan.shared // seedvr2.STEP)
    clips = frames / max(1, (latents - shared) * seedvr2.STEP)
    pinned = min(plan.pin_bytes, each)
    return Streamed(pinned=clips * pinned, paged=clips * (each - pinned))


def card_of(budget: Budget) -> GpuSpec:
    """The card that a job counts with."""
    return gpu_speed.card_of(budget.gpu, budget.capability)


def card_name(model: ModelPlan, budget: Budget) -> str:
    """What the speed of the card that a plan computes on is kept under; "" for the processor."""
    if model.device != "cuda":
        return ""
    return name_of(budget.gpu, budget.capability)


def name_of(card: GpuSpec | None, capability: tuple[int, int] | None) -> str:
    """The card's title; where it is in no table its CUDA capability has to do."""
    if card is not None:
        return card.title
    return "CUDA {}.{}".format(*(capability or (0, 0)))
