"""Models that take shots: what their planning promises, so that nobody asks which one it is."""

from __future__ import annotations

from typing import Protocol

from engine.models.planning.search import Needs, Room
from engine.models.seedvr2.planning import choose as seedvr2
from engine.models.wan.planning import choose as wan
from engine.protocol.plan import ModelPlan, Plan
from engine.tiling.grid import tile_grid


class Family(Protocol):
    """How jobs of a family are planned; each is a module."""

    def needs(self, model: ModelPlan) -> Needs:
        """What a job takes; from numbers alone."""
        ...

    def stage_bytes(self, model: ModelPlan) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included; from numbers alone."""
        ...

    def work(self, model: ModelPlan, frames: int) -> float:
        """Floating-point operations for so many frames."""
        ...

    def stage_work(self, model: ModelPlan, frames: int) -> dict[str, float]:
        """The same, stage by stage."""
        ...

    def tiles(self, model: ModelPlan) -> int:
        """Tiles of the decoder in a frame."""
        ...

    def smaller(self, model: ModelPlan, stage: str = "") -> ModelPlan | None:
        """The same with less on the device, in the stage that ran out; None at the floor."""
        ...

    def less_on_host(self, model: ModelPlan) -> ModelPlan | None:
        """The same with less in main memory; None at the floor."""
        ...

    def wider(self, model: ModelPlan) -> ModelPlan | None:
        """The same with numbers that do not overflow; None where they are as wide as can be."""
        ...

    def fitted(self, model: ModelPlan, room: Room) -> ModelPlan:
        """The fastest plan within the budget; the smallest one where none is."""
        ...


def family_of(model: ModelPlan) -> Family | None:
    """Who plans a model that takes shots; None for one that takes frame by frame."""
    if model.diffusion is not None:
        return seedvr2
    return wan if model.wan is not None else None


def tiles_per_frame(plan: Plan) -> int:
    """How many tiles a frame is cut into."""
    model = plan.model
    family = family_of(model)
    if family is not None:
        return family.tiles(model)
    if model.model == "none":
        return 1
    return len(tile_grid(plan.source_size, model.tile, model.overlap))
