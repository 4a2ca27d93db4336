"""Every optimisation as data: what it is called, what it does, how exact it is, where it works.

A switch is a field of the dataclass of its group (`VaeSwitches`, `DitSwitches`, `RunSwitches`) and
a line of that group's table; the benchmark turns each line on or off alone and measures it on the
machine at hand. A choice is a line beside them that has more than two values. All are settable
by the setting `switches`, by `--set` and by environment, see `engine.settings.switches`.
"""

from __future__ import annotations

from engine.settings.optimisations.claims import CLAIMS, Claim
from engine.settings.optimisations.dit import DIT_OPTIMISATIONS, DitSwitches
from engine.settings.optimisations.entry import (
    CPU,
    CUDA,
    Choice,
    Entry,
    Exactness,
    Group,
    Optimisation,
    SwitchSet,
    find,
)
from engine.settings.optimisations.run import RUN_OPTIMISATIONS, Allocator, RunSwitches
from engine.settings.optimisations.vae import VAE_OPTIMISATIONS, Convolution, VaeSwitches

GROUPS: dict[Group, type[SwitchSet]] = {
    "vae": VaeSwitches,
    "dit": DitSwitches,
    "run": RunSwitches,
}


def switches() -> tuple[Optimisation, ...]:
    """Every line that is on or off, of all groups."""
    return tuple(entry for group in GROUPS.values() for entry in group.TABLE)


def choices() -> tuple[Choice, ...]:
    """Every line with more than two values, of all groups."""
    return tuple(entry for group in GROUPS.values() for entry in group.CHOICES)


def switch_names() -> tuple[str, ...]:
    """What can be switched on and off in any model, each name once."""
    tables = (VAE_OPTIMISATIONS, DIT_OPTIMISATIONS)
    return tuple(dict.fromkeys(entry.name for table in tables for entry in table))


__all__ = [
    "CLAIMS",
    "CPU",
    "CUDA",
    "DIT_OPTIMISATIONS",
    "GROUPS",
    "RUN_OPTIMISATIONS",
    "VAE_OPTIMISATIONS",
    "Allocator",
    "Choice",
    "Claim",
    "Convolution",
    "DitSwitches",
    "Entry",
    "Exactness",
    "Group",
    "Optimisation",
    "RunSwitches",
    "SwitchSet",
    "VaeSwitches",
    "choices",
    "find",
    "switch_names",
    "switches",
]
