"""A line of the registry of optimisations, and what the switches of every group can do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

Exactness = Literal["exact", "rounding", "inexact"]
Group = Literal["vae", "dit", "run"]

CPU = "cpu"
CUDA = "cuda"
BOTH = (CPU, CUDA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the registry tells of a switch or a choice.

    Attributes:
        group: "vae" and "dit" are of those models, "run" of the machine around them.
        name: Field of the switches of its group.
        title: For people.
        exactness: "exact": equal but for rounding; "rounding": some more rounding; "inexact":
            the result is another one.
        devices: Kinds of torch devices that it does something on.
        does: What it does, one sentence.
        reason: Why its default is as it is, one sentence.
        claim: What documents of others promise of it; "" nothing. Nobody measured that here.
        capability: Least CUDA capability; None: any.
        at_start: Only counts when it is chosen before torch is loaded.
    """

    group: Group
    name: str
    title: str
    exactness: Exactness
    devices: tuple[str, ...]
    does: str
    reason: str
    claim: str = ""
    capability: tuple[int, int] | None = None
    at_start: bool = False

    @property
    def key(self) -> str:
        """Its name in settings: "vae.upsampler_fold"."""
        return f"{self.group}.{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment: "UPREEL_VAE_UPSAMPLER_FOLD"."""
        return f"UPREEL_{self.group}_{self.name}".upper()

    def works_on(self, device: str, capability: tuple[int, int] | None = None) -> bool:
        """Whether it does something on a kind of device, a card of this capability."""
        if device not in self.devices:
            return False
        return (
            device != CUDA or self.capability is None or (capability or (0, 0)) >= self.capability
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation(Entry):
    """One optimisation that can be switched on and off by itself.

    Attributes:
        default: Whether it is on where it works.
    """

    kind: ClassVar[str] = "switch"

    default: bool

    def default_on(self, device: str, capability: tuple[int, int] | None = None) -> bool:
        """Whether it is on by default on a kind of device, a card of this capability."""
        return self.default and self.works_on(device, capability)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Entry):
    """One of several ways; told beside the switches, but not simply on or off.

    Attributes:
        values: That can be chosen.
        default: One of them.
        systems: Values that only some systems have: value -> names as of `sys.platform`.
        setting: The job's setting that it is; "" where it is chosen as switches are.
    """

    kind: ClassVar[str] = "choice"

    values: tuple[str, ...]
    default: str
    systems: tuple[tuple[str, tuple[str, ...]], ...] = ()
    setting: str = ""

    def has(self, value: str, system: str = sys.platform) -> bool:
        """Whether a value can be chosen on a system."""
        return value in self.values and system in dict(self.systems).get(value, (system,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchSet:
    """The switches of a group: a field for each line of its table, and for each of its choices."""

    TABLE: ClassVar[tuple[Optimisation, ...]]
    CHOICES: ClassVar[tuple[Choice, ...]] = ()

    @classmethod
    def all_off(cls) -> Self:
        """No optimisation at all; choices are still made by themselves."""
        return cls(**{entry.name: False for entry in cls.TABLE})

    @classmethod
    def default_on(cls, device: str, capability: tuple[int, int] | None = None) -> Self:
        """The defaults on a kind of device, a card of this capability; what does nothing is off."""
        return cls(
            **{entry.name: entry.default_on(device, capability) for entry in cls.TABLE},
            **{choice.name: choice.default for choice in cls.CHOICES if not choice.setting},
        )

    def changed(self, name: str, on: bool) -> Self:
        """The same with one optimisation on or off.

        Raises:
            KeyError: There is no such optimisation.
        """
        change: dict[str, Any] = {find(name, self.TABLE).name: on}
        return replace(self, **change)

    @classmethod
    def known(cls, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some names that are optimisations of this group."""
        return tuple(name for name in names if any(entry.name == name for entry in cls.TABLE))

    def names_on(self) -> tuple[str, ...]:
        """Names of the optimisations that are on, in the order of the table."""
        return tuple(entry.name for entry in self.TABLE if getattr(self, entry.name))


def find(name: str, table: tuple[Optimisation, ...]) -> Optimisation:
    """The line of one optimisation.

    Raises:
        KeyError: There is no such optimisation.
    """
    for entry in table:
        if entry.name == name:
            return entry
    raise KeyError(name)
