"""Every setting once: type, default, unit, limits and description.

The command line's `--set`, the checks, the window's pages and the manual all read these fields.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.settings.optimisations.dit import ATTENTION, FILES, PRODUCTS
from engine.settings.optimisations.vae import VAE_NUMBERS
from engine.settings.switches import check_switches, is_switch, settings_of

CODECS = ("auto", "h264", "hevc", "av1", "prores", "ffv1")
CONTAINERS = ("auto", "mp4", "mkv", "mov")
SEEDVR2 = ("seedvr2-3b", "seedvr2-7b", "seedvr2-7b-sharp")
WAN_UPSCALERS = ("wan-2x",)
MODELS = ["auto", "lite", *SEEDVR2, *WAN_UPSCALERS, "none"]  # families that register add theirs
COLOURS = ("two-scale", "lab", "wavelet", "wavelet_adaptive", "hsv", "adain", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a field means; kept in the metadata of the dataclass field."""

    description: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: Sequence[str] = ()
    families: tuple[
        str, ...
    ] = ()  # that look at it: "lite", "seedvr2", "wan", "latents"; () for all
    syntax: Callable[[str], None] | None = None  # raises SettingsError for what cannot be read


def setting(default: Any, description: str, **details: Any) -> Any:
    """A dataclass field with its Setting."""
    return field(default=default, metadata={"setting": Setting(description=description, **details)})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What the user wants of one job. Zero or "auto" leaves the choice to the planner."""

    model: str = setting("auto", "Model that redraws the picture.", choices=MODELS)
    scale: int = setting(2, "How many times as wide and high.", unit="x", low=1, high=4)
    height: int = setting(
        0, "Height of the result instead of a scale.", unit="px", low=0, high=16384
    )
    width: int = setting(0, "Width of the result, with a height.", unit="px", low=0, high=16384)
    form: str = setting(
        "auto",
        "Lite: keep a clean source as it is, or also remove compression and noise.",
        choices=("auto", "faithful", "restore"),
        families=("lite",),
    )
    precision: str = setting(
        "auto",
        "Which file of the model: smaller ones need less memory and are a little less exact.",
        choices=FILES,
        families=("seedvr2",),
    )
    strength: int = setting(
        100,
        "How much of the restoration is taken.",
        unit="%",
        low=0,
        high=100,
        families=("seedvr2",),
    )
    seed: int = setting(
        42,
        "Which noise the model starts from; the same seed gives the same result.",
        low=0,
        high=2**31 - 1,
        families=("seedvr2",),
    )
    colour: str = setting(
        "two-scale",
        "How colours are held to the source's.",
        choices=COLOURS,
        families=("seedvr2",),
    )
    clip_frames: int = setting(
        0,
        "Frames that the transformer sees together, rounded to 4n+1; 0 as many as fit.",
        unit="frames",
        low=0,
        high=241,
        families=("seedvr2",),
    )
    join: str = setting(
        "latents",
        "How neighbouring clips of a shot are joined.",
        choices=("latents", "frames", "none"),
        families=("seedvr2",),
    )
    join_frames: int = setting(
        4,
        "Frames that neighbouring clips share where they are joined as frames.",
        unit="frames",
        low=1,
        high=32,
        families=("seedvr2",),
    )
    shots: str = setting(
        "auto",
        "Find cuts, so that no clip goes across one.",
        choices=("auto", "off"),
        families=("seedvr2", "wan"),
    )
    shot_sensitivity: int = setting(
        60, "How readily a cut is seen.", unit="%", low=0, high=100, families=("seedvr2", "wan")
    )
    padding: str = setting(
        "reflect",
        "What stands beside a picture whose sides are no multiple of 16.",
        choices=("reflect", "black"),
        families=("seedvr2",),
    )
    input_noise: int = setting(
        0, "Noise added to the frames.", unit="%", low=0, high=100, families=("seedvr2",)
    )
    latent_noise: int = setting(
        0, "Noise added to what the model sees.", unit="%", low=0, high=100, families=("seedvr2",)
    )
    noise_order: str = setting(
        "per-latent",
        "In which order noise is drawn; reference draws it anew for every clip.",
        choices=("per-latent", "reference"),
        families=("seedvr2",),
    )
    attention: str = setting(
        "auto", "Which attention kernels are used.", choices=ATTENTION, families=("seedvr2",)
    )
    products: str = setting(
        "none",
        "Number format of the transformer's matrix products; all but none are less exact.",
        choices=PRODUCTS,
        families=("seedvr2",),
    )
    blocks_on_device: int = setting(
        -1,
        "Blocks of the transformer that stay on the card, the others come from memory; -1 as "
        "many as fit.",
        low=-1,
        high=64,
        families=("seedvr2",),
    )
    encode_tile: int = setting(
        0,
        "Edge of a tile that is encoded at a time; 0 as large as fits.",
        unit="px",
        low=0,
        high=16384,
        families=("seedvr2", "wan"),
    )
    decode_tile: int = setting(
        0,
        "Edge of a tile that is decoded at a time; 0 as large as fits.",
        unit="px",
        low=0,
        high=16384,
        families=("seedvr2", "wan"),
    )
    vae_precision: str = setting(
        "auto",
        "Number format of the VAE.",
        choices=VAE_NUMBERS,
        families=("seedvr2", "wan"),
    )
    dit: str = setting("", "File of a SeedVR2 transformer of your own.", families=("seedvr2",))
    vae: str = setting("", "File of the model's VAE of your own.", families=("seedvr2", "wan"))
    text_embedding: str = setting(
        "", "File of a text embedding of your own.", families=("seedvr2",)
    )
    latents: str = setting(
        "auto",
        "How the numbers of a .latent file are meant; auto looks at them.",
        choices=("auto", "raw", "normalised"),
        families=("latents",),
    )
    latent_rate: float = setting(
        0.0,
        "Frames a second of a .latent file; 0 as the model was made for.",
        unit="frames/s",
        low=0.0,
        high=240.0,
        families=("latents",),
    )
    latent_vae: str = setting(
        "", "File of a Wan VAE of your own, for .latent files.", families=("latents",)
    )
    switches: str = setting(
        "",
        "Optimisations to turn on or off, as vae.temporal_winograd=on,dit.fused_steps=off; each "
        "name is short for it too.",
        syntax=check_switches,
    )
    device: str = setting("auto", "Where the model runs.", choices=("auto", "cpu", "cuda"))
    tile: int = setting(
        0, "Edge of a tile in source pixels.", unit="px", low=0, high=4096, families=("lite",)
    )
    overlap: int = setting(
        16, "Pixels that neighbouring tiles share.", unit="px", low=0, high=256, families=("lite",)
    )
    codec: str = setting("auto", "Codec of the picture.", choices=CODECS)
    encoder: str = setting(
        "auto", "Encode on the processor or on the card.", choices=("auto", "cpu", "nvenc")
    )
    crf: int = setting(16, "Quality of the file: lower is better and larger.", low=0, high=51)
    speed: str = setting(
        "auto",
        "How much time the encoder takes for a smaller file.",
        choices=("auto", "fast", "medium", "slow"),
    )
    bit_depth: int = setting(
        0, "Bits of each colour value; 0 as the source.", unit="bit", low=0, high=12
    )
    chroma: str = setting(
        "auto", "Colour resolution of the file.", choices=("auto", "420", "422", "444")
    )
    container: str = setting("auto", "Kind of file.", choices=CONTAINERS)
    start: str = setting("", "Begin at this time, as 12.5 or 1:02:03.5.", unit="s")
    stop: str = setting("", "End before this time.", unit="s")
    segment_seconds: float = setting(
        5.0, "Length of the pieces a job can be resumed at.", unit="s", low=0.5, high=60.0
    )
    accept_damaged: bool = setting(False, "Take what is there of a source that is cut short.")
    overwrite: bool = setting(False, "Replace a file of the same name.")

    def __post_init__(self) -> None:
        check(self)

    @property
    def target(self) -> Size | None:
        """Exact size of the result where both sides are given."""
        return Size(self.width, self.height) if self.width and self.height else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What holds for every job on this machine."""

    threads: int = setting(
        0, "Processor threads of the model; 0 as many as cores.", low=0, high=256
    )
    memory_share: float = setting(
        0.7, "Part of the free memory that a job may take.", low=0.1, high=0.95
    )
    preserve_vram: bool = setting(
        False, "Give the card's memory back between jobs and while a job is paused."
    )
    tile_previews: bool = setting(True, "Send small pictures of what is being made.")

    def __post_init__(self) -> None:
        check(self)


S = TypeVar("S", JobSettings, EngineSettings)


@cache
def describe(settings: type[Any]) -> Mapping[str, Setting]:
    """Name and meaning of every setting of a settings class, in reading order."""
    return MappingProxyType({f.name: f.metadata["setting"] for f in fields(settings)})


@cache
def types_of(settings: type[Any]) -> Mapping[str, type[Any]]:
    """Name and type of every setting of a settings class; reading the annotations takes 0.5 ms."""
    return MappingProxyType(get_type_hints(settings))


def check(settings: Any) -> None:
    """Refuse values outside limits and choices.

    Raises:
        SettingsError: Names the setting, its value and what is allowed.
    """
    kind: Any = type(settings)
    types = types_of(kind)
    for name, about in describe(kind).items():
        value = getattr(settings, name)
        wanted = types[name]
        ok = isinstance(value, (int, float) if wanted is float else wanted)
        if not ok or (wanted is not bool and isinstance(value, bool)):
            raise SettingsError(
                f"{name} must be a {wanted.__name__}, not {value!r}.", setting=name, value=value
            )
        if about.choices and value not in about.choices:
            allowed = ", ".join(about.choices)
            raise SettingsError(
                f"{name} cannot be {value!r}.",
                hint=f"Choose one of: {allowed}.",
                setting=name,
                value=value,
                allowed=allowed,
            )
        if (about.low is not None and value < about.low) or (
            about.high is not None and value > about.high
        ):
            raise SettingsError(
                f"{name} cannot be {value}.",
                hint=f"Choose a value from {about.low:g} to {about.high:g}.",
                setting=name,
                value=value,
                low=about.low,
                high=about.high,
            )
        if about.syntax is not None:
            about.syntax(value)


def with_text(settings: S, assignments: list[str]) -> S:
    """A copy of `settings` with "name=value" texts applied, as `--set` gives them.

    The name of a switch ("vae.temporal_winograd=on") adds it to the setting `switches`.

    Raises:
        SettingsError: Unknown name (with the nearest one), wrong type, limit or choice.
    """
    kind: Any = type(settings)
    types = types_of(kind)
    changes: dict[str, Any] = {}
    for text in assignments:
        name, separator, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not separator:
            raise SettingsError(f"{text!r} is not name=value.", hint="Write for example crf=18.")
        if is_switch(name) and "switches" in types:
            before = changes.get("switches", getattr(settings, "switches", ""))
            name, value = "switches", ",".join(filter(None, (before, text.strip())))
        if name not in types:
            near = difflib.get_close_matches(name, types, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(types)}."
            raise SettingsError(f"There is no setting {name!r}.", hint=hint, setting=name)
        changes[name] = _parse(name, value.strip(), types[name])
    return dataclasses.replace(settings, **changes)


def with_environment(settings: JobSettings) -> JobSettings:
    """The same where lines of the registry that are settings of their own are still "auto" or off.

    The text `switches` and the environment (UPREEL_DIT_ATTENTION) may say them as well.

    Raises:
        SettingsError: The environment has a switch that does not exist, or an impossible value.
    """
    usual = {field.name: field.default for field in fields(JobSettings)}
    changes: dict[str, Any] = {
        name: value
        for name, value in settings_of(settings.switches).items()
        if getattr(settings, name) == usual[name]
    }
    return dataclasses.replace(settings, **changes)


def _parse(name: str, text: str, wanted: type[Any]) -> Any:
    if wanted is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        if text.lower() in words:
            return words[text.lower()]
        raise SettingsError(f"{name} cannot be {text!r}.", hint="Choose yes or no.", setting=name)
    try:
        return wanted(text)
    except ValueError as err:
        raise SettingsError(
            f"{name} cannot be {text!r}.", hint=f"It must be a {wanted.__name__}.", setting=name
        ) from err
