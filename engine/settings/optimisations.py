"""Every optimisation in one place: default, exactness, devices; one field each.

A switch is a field of the dataclass of its group; the benchmark turns each one on or off alone and
measures it on the machine at hand. A choice has more than two values. Titles, what they do and why
the defaults are as they are: `switch.<group>.<name>` in the message catalogue (title, text, hint).
All can be set by the setting `switches`, by `--set` and by environment: `engine.settings.switches`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Literal, Self

from engine.core.messages import Message, message
from engine.settings.requirements import (
    ALLOCATORS,
    ATTENTION,
    COMPILER,
    COMPILERS,
    COMPILING,
    CONVOLUTIONS,
    CPU,
    CUDA,
    MATMUL,
    NOTHING,
    ON_GPU,
    ON_PROCESSOR,
    PACKAGES,
    SERIES,
    VAE_DTYPES,
    WEIGHTS_FILES,
    Requirement,
    is_installed,
    on_gpu,
)

Exactness = Literal["exact", "rounding", "inexact"]
Group = Literal["vae", "dit", "run"]
Value = bool | str
Convolution = Literal["auto", "2d", "3d", "kernel"]
Allocator = Literal["native", "expandable", "async"]
Compiler = Literal["inductor", "max-autotune"]

ALL = "all"  # every optimisation of a group, or of all groups
EXACT = "exact"  # none: the arithmetic of the plain variants

# Families of models that look at the switches of a group; () for all.
_USERS: dict[Group, tuple[str, ...]] = {
    "vae": ("seedvr2", "swiftvr", "wan"),
    "dit": ("seedvr2",),
    "run": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchEntry:
    """Description of a switch or a choice."""

    group: Group  # "vae" and "dit" are of those models, "run" of the machine around them
    name: str  # field of the switches of its group
    # "exact": equal but for rounding; "rounding": more rounding; "inexact": not equal.
    exactness: Exactness = "exact"
    needs: Requirement = NOTHING  # requirements for it to have an effect
    at_start: bool = False  # only counts when it is chosen before torch is loaded
    old_names: tuple[str, ...] = ()  # its names in earlier versions, without the group

    @property
    def key(self) -> str:
        """Its name in settings: "vae.upsampler_fold"."""
        return f"{self.group}.{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment: "UPREEL_VAE_UPSAMPLER_FOLD"."""
        return variable_of(self.key)

    @property
    def code(self) -> str:
        """Its table in the message catalogue."""
        return f"switch.{self.key}"

    def counts_for(self, family: str) -> bool:
        """Whether models of a family look at it."""
        return not (families := _USERS[self.group]) or family in families

    def works_on(self, device: str, capability: tuple[int, int] | None = None) -> bool:
        """Whether it does something on a kind of device, a GPU of this capability."""
        return _missing(self.needs, device, capability) is None

    def missing(
        self, value: Value, device: str, capability: tuple[int, int] | None = None
    ) -> Message | None:
        """Why it cannot be on there; None where it can, and for off."""
        return _missing(self.needs, device, capability) if value else None

    def working(self, _device: str, _capability: tuple[int, int] | None = None) -> tuple[str, ...]:
        """Choices that remain where it cannot be on."""
        return ("off",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation(SwitchEntry):
    """One optimisation that can be switched on and off by itself."""

    default: bool  # whether it is on where it works

    def default_on(self, device: str, capability: tuple[int, int] | None = None) -> bool:
        """Whether it is on by default on a kind of device, a GPU of this capability."""
        return self.default and self.works_on(device, capability)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchChoice(SwitchEntry):
    """One of several variants."""

    # Values that can be chosen, with the requirements of each.
    values: Mapping[str, Requirement] = field(hash=False)
    default: str  # one of them
    # The value that computes as the plain variant of a model does; "" where none does.
    plain: str = ""
    setting: str = ""  # the job's setting that it is; "" where it is chosen as switches are

    def missing(
        self, value: Value, device: str, capability: tuple[int, int] | None = None
    ) -> Message | None:
        """Why a value cannot be chosen there; None where it can."""
        return _missing(self.values[str(value)], device, capability)

    def working(self, device: str, capability: tuple[int, int] | None = None) -> tuple[str, ...]:
        """Values that can be chosen there."""
        return tuple(
            value for value in self.values if self.missing(value, device, capability) is None
        )


def _missing(needs: Requirement, device: str, capability: tuple[int, int] | None) -> Message | None:
    if needs.systems and sys.platform not in needs.systems:
        return message("reason.choice.system")
    if device not in needs.devices:
        return message(f"reason.choice.{'gpu' if device == CPU else 'processor'}")
    least = needs.capability
    if device == CUDA and least is not None and (capability or (0, 0)) < least:
        series = SERIES.get(least)
        case = "capability" if series is None else "series"
        return message(f"reason.choice.{case}", capability="{}.{}".format(*least), series=series)
    if needs.sources and getattr(sys, "frozen", False):
        return message("reason.choice.sources")
    part = dict(needs.parts).get(device, "")
    if not part or is_installed(part):
        return None
    if part == COMPILER:
        return message("reason.choice.compiler")
    return message("reason.choice.package", package=PACKAGES.get(part, part))


def _switch(default: bool = True, exactness: Exactness = "exact", **about: Any) -> Any:
    """A field that is an optimisation; `about` holds fields of SwitchEntry."""
    return field(default=default, metadata=_about(Optimisation, exactness=exactness, **about))


def _about(kind: type[SwitchEntry], **about: Any) -> dict[str, Any]:
    return {"kind": kind, "about": about, "old_names": about.get("old_names", ())}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchSet:
    """The switches of a group."""

    GROUP: ClassVar[Group]

    @classmethod
    def entries(cls) -> tuple[SwitchEntry, ...]:
        """Every field as an entry, in order."""
        return _entries(cls.GROUP)

    @classmethod
    def optimisations(cls) -> tuple[Optimisation, ...]:
        """The fields that are on or off."""
        return tuple(entry for entry in cls.entries() if isinstance(entry, Optimisation))

    @classmethod
    def all_off(cls) -> Self:
        """No optimisation at all; choices keep their defaults."""
        return cls(**{entry.name: False for entry in cls.optimisations()})

    @classmethod
    def default_on(cls, device: str, capability: tuple[int, int] | None = None) -> Self:
        """The defaults on a kind of device, a GPU of this capability; what does nothing is off."""
        return cls(
            **{entry.name: entry.default_on(device, capability) for entry in cls.optimisations()}
        )

    def changed(self, name: str, on: bool) -> Self:
        """Switches with one optimisation, or with "all", on or off."""
        found = self.optimisations() if name == ALL else (self.find(name),)
        changes: dict[str, Any] = {entry.name: on for entry in found}
        return replace(self, **changes)

    @classmethod
    def only(cls, name: str) -> Self:
        """One optimisation alone, "all" of them, or with "exact" none."""
        off = cls.all_off()
        return off if name == EXACT else off.changed(name, True)

    @classmethod
    def find(cls, name: str) -> Optimisation:
        """One optimisation; raises KeyError where there is none of this name."""
        for entry in cls.optimisations():
            if entry.name == name:
                return entry
        raise KeyError(name)

    @classmethod
    def known(cls, names: Iterable[str]) -> tuple[str, ...]:
        """Names of this group among some names, without its prefix: "in_place", "all"."""
        mine = {ALL, EXACT, *(entry.name for entry in cls.optimisations())}
        bare = (name.removeprefix(f"{cls.GROUP}.") for name in names)
        return tuple(name for name in bare if name in mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeSwitches(SwitchSet):
    """Optimisations of the fast variant of a video VAE; the defaults are those of users."""

    GROUP: ClassVar[Group] = "vae"

    upsampler_fold: bool = _switch()
    first_frame_fold: bool = _switch()
    image_mode: bool = _switch()
    ring_buffers: bool = _switch()
    channels_last: bool = _switch()
    fused_norm: bool = _switch()
    in_place: bool = _switch()
    kernels: bool = _switch(needs=on_gpu((7, 5)))
    chunked_attention: bool = _switch(needs=ON_GPU)
    chunked_upsampling: bool = _switch()
    planned_buffers: bool = _switch()
    temporal_winograd: bool = _switch(False, "rounding")
    fp16_sums: bool = _switch(
        True, "rounding", needs=on_gpu((7, 5)), old_names=("fp16_accumulation",)
    )
    compile: bool = _switch(False, "rounding", needs=COMPILING)
    convolution: Convolution = field(
        default="auto", metadata=_about(SwitchChoice, values=CONVOLUTIONS, plain="3d")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DitSwitches(SwitchSet):
    """Optimisations of the fast variant of the SeedVR2 transformer."""

    GROUP: ClassVar[Group] = "dit"

    grouped_windows: bool = _switch()
    cached_layout: bool = _switch()
    constant_modulation: bool = _switch()
    folded_modulation: bool = _switch(False, "rounding")
    constant_text: bool = _switch()
    unread_text: bool = _switch()
    fused_steps: bool = _switch()
    kernels: bool = _switch(needs=on_gpu((7, 5)))
    in_place_residual: bool = _switch()
    token_chunks: bool = _switch(needs=ON_PROCESSOR)
    planned_buffers: bool = _switch()
    onednn_matmul: bool = _switch(needs=ON_PROCESSOR, old_names=("onednn_products",))
    fp16_sums: bool = _switch(True, "rounding", needs=on_gpu((7, 5)))
    compile: bool = _switch(False, "rounding", needs=COMPILING)
    # A backend of `engine.ops.attention`; "auto" takes the fastest exact one.
    attention: str = field(
        default="auto",
        metadata=_about(SwitchChoice, values=ATTENTION, plain="sdpa", setting="attention"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSwitches(SwitchSet):
    """Optimisations of the machine around the models: transfers, memory, libraries."""

    GROUP: ClassVar[Group] = "run"

    cudnn_benchmark: bool = _switch(needs=ON_GPU)
    tf32: bool = _switch(False, "inexact", needs=on_gpu((8, 0)))
    pinned_transfers: bool = _switch(needs=ON_GPU)
    copy_stream: bool = _switch(needs=ON_GPU)
    weights_stream: bool = _switch(needs=ON_GPU)
    two_tiles: bool = _switch(False, needs=ON_GPU)
    passive_threads: bool = _switch(at_start=True)
    allocator: Allocator = field(
        default="native", metadata=_about(SwitchChoice, values=ALLOCATORS, at_start=True)
    )
    compiler: Compiler = field(default="inductor", metadata=_about(SwitchChoice, values=COMPILERS))


GROUPS: dict[Group, type[SwitchSet]] = {
    "vae": VaeSwitches,
    "dit": DitSwitches,
    "run": RunSwitches,
}

# Choices that are settings of a job and fields of no group.
_SETTINGS = (
    SwitchChoice(
        group="vae",
        name="precision",
        exactness="inexact",
        values=VAE_DTYPES,
        default="auto",
        setting="vae_precision",
    ),
    SwitchChoice(
        group="dit",
        name="matmul",
        exactness="inexact",
        values=MATMUL,
        default="none",
        setting="matmul",
        old_names=("products",),
    ),
    SwitchChoice(
        group="dit",
        name="precision",
        exactness="inexact",
        values=WEIGHTS_FILES,
        default="auto",
        setting="precision",
    ),
)


def optimisations() -> tuple[Optimisation, ...]:
    """Everything that is on or off, of all groups."""
    return tuple(entry for group in GROUPS.values() for entry in group.optimisations())


def choices() -> tuple[SwitchChoice, ...]:
    """Everything with more than two values, of all groups."""
    found = (entry for group in GROUPS.values() for entry in group.entries())
    return (*(entry for entry in found if isinstance(entry, SwitchChoice)), *_SETTINGS)


def model_switch_names() -> tuple[str, ...]:
    """Names of the switches of all models, each once, without the group."""
    entries = (*VaeSwitches.optimisations(), *DitSwitches.optimisations())
    return tuple(dict.fromkeys(entry.name for entry in entries))


def variable_of(key: str) -> str:
    """Environment variable of a switch or group: "UPREEL_VAE_ALL" of "vae.all"."""
    return f"UPREEL_{key.replace('.', '_')}".upper()


@cache
def _entries(group: Group) -> tuple[SwitchEntry, ...]:
    return tuple(
        one.metadata["kind"](
            group=group, name=one.name, default=one.default, **one.metadata["about"]
        )
        for one in fields(GROUPS[group])
    )
