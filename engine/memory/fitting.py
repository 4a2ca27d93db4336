"""From a plan at its largest down to one that fits into main memory and the card's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.memory.budget import Budget
from engine.plan import ModelPlan

Step = Callable[[ModelPlan], ModelPlan | None]


class Needs(Protocol):
    """Bytes of a job."""

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        ...

    @property
    def host(self) -> int:
        """Bytes of main memory, device or not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What a family knows of its plans: their needs, and the next smaller ones."""

    needs: Callable[[ModelPlan], Needs]
    smaller: Step
    less_on_host: Step


def fits(needs: Needs, device: str, budget: Budget, host_bytes: int) -> bool:
    """Whether a job stays within the budget of main memory and of the card.

    Args:
        needs: Of the model.
        device: Where it runs.
        budget: What the machine has.
        host_bytes: That the rest of the job takes of main memory.
    """
    if device == "cuda":
        in_ram = host_bytes + needs.host <= budget.ram_bytes
        return in_ram and needs.device <= budget.vram_bytes
    return host_bytes + needs.host + needs.device <= budget.ram_bytes


def fitted(model: ModelPlan, steps: Steps, budget: Budget, host_bytes: int) -> ModelPlan:
    """The largest plan within the budget; the smallest one where none is.

    Args:
        model: At its largest.
        steps: Of its family.
        budget: What the machine has.
        host_bytes: That the rest of the job takes of main memory.
    """
    while not fits(now := steps.needs(model), model.device, budget, host_bytes):
        is_host = model.device == "cuda" and now.device <= budget.vram_bytes
        first, second = steps.smaller, steps.less_on_host
        if is_host:
            first, second = second, first
        less = first(model) or second(model)
        if less is None:
            break
        model = less
    return model
