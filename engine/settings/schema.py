"""Every setting in one place: type, default, unit, limits, choices, and where the window shows it.

Names, descriptions and the names of choices are in the message catalogue: `setting.<name>` (title,
text) and `choice.<setting>.<value>`. The command line's `--set`, the checks, the presets and the
window's editors all read these fields: docs/adding-a-setting.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_type_hints

from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.settings.requirements import ATTENTION, MATMUL, VAE_DTYPES, WEIGHTS_FILES
from engine.settings.switches import check_switches, settings_of

LITE = ("lite", "lite-plus")
SEEDVR2 = ("seedvr2-3b", "seedvr2-7b", "seedvr2-7b-sharp")
SWIFTVR = ("swiftvr",)
WAN_UPSCALERS = ("wan-2x",)
# Families that register add theirs.
MODELS = ["auto", *LITE, *SEEDVR2, *SWIFTVR, *WAN_UPSCALERS, "community", "none"]
CODECS = ("auto", "h264", "hevc", "av1", "vp9", "prores", "ffv1")
# Formats of results, with the suffix of their files.
VIDEO_FORMATS = {"mp4": ".mp4", "mkv": ".mkv", "mov": ".mov", "webm": ".webm"}
# Of single images; those of a video are numbered in a folder.
IMAGE_FORMATS = {"png": ".png", "tiff": ".tif", "exr": ".exr", "dpx": ".dpx"}
CONTAINERS = ("auto", *VIDEO_FORMATS, *IMAGE_FORMATS)
SOUND = ("auto", "aac", "opus", "flac")
COLOURS = ("two-scale", "lab", "wavelet", "wavelet_adaptive", "hsv", "adain", "none")

# Headings of the window, in its order; "main" is shown above them. Titles: `setting-group.<name>`.
Group = Literal[
    "main", "picture", "clips", "memory", "own-files", "latents", "film", "file", "computing"
]
Kind = Literal["", "time", "path", "folder", "pattern", "command", "switches", "device", "gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Description of a setting; kept in the metadata of the dataclass field."""

    group: Group = "main"  # heading of the window under which it is shown
    unit: str = ""  # unit of a number; "s" also of a time
    low: float | None = None  # least value
    high: float | None = None  # largest value
    # All values that a whole number may have; () for any within the limits.
    values: tuple[int, ...] = ()
    # All values that a text may have, but for names of GPUs; () for any.
    choices: Sequence[str] = ()
    # Models and sources that use it: "lite", "wan", "latents" and so on; () for all.
    families: tuple[str, ...] = ()
    kind: Kind = ""  # meaning of a text without choices; "" for other settings
    low_is_automatic: bool = False  # the least value leaves the choice to the planner
    # "any": part of presets. "user": a permission or a file of this user, not in presets. "source":
    # of one video, neither in presets nor kept for the next video.
    scope: Literal["any", "user", "source"] = "any"


def setting(default: Any, *, old_names: tuple[str, ...] = (), **details: Any) -> Any:
    """A dataclass field with its Setting.

    Args:
        default: Its value where nothing else is chosen.
        old_names: Names in files and on command lines of earlier versions.
        details: Fields of Setting.
    """
    return field(default=default, metadata={"setting": Setting(**details), "old_names": old_names})


_LITE, _SEEDVR2, _LATENTS = ("lite",), ("seedvr2",), ("latents",)
_TRANSFORMERS, _TILED, _SHOTS = (
    ("seedvr2", "swiftvr"),
    ("seedvr2", "wan"),
    ("seedvr2", "swiftvr", "wan"),
)
_COMMUNITY, _FRAMES = ("community",), ("lite", "community")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of one job. Zero or "auto" leaves the choice to the planner."""

    model: str = setting("auto", choices=MODELS)
    first_model: str = setting("", kind="path", scope="user")
    scale: int = setting(2, unit="x", low=1, high=4)
    height: int = setting(0, unit="px", low=0, high=16384, low_is_automatic=True)
    width: int = setting(0, unit="px", low=0, high=16384, low_is_automatic=True)
    treatment: str = setting(
        "auto", choices=("auto", "faithful", "restore"), families=_LITE, old_names=("form",)
    )
    strength: int = setting(100, unit="%", low=0, high=100, families=_TRANSFORMERS)
    container: str = setting("auto", choices=CONTAINERS)
    codec: str = setting("auto", choices=CODECS)
    crf: int = setting(16, low=0, high=51)

    precision: str = setting(
        "auto", group="picture", choices=tuple(WEIGHTS_FILES), families=_SEEDVR2
    )
    working_size: int = setting(100, group="picture", unit="%", low=70, high=100, families=_SEEDVR2)
    seed: int = setting(42, group="picture", low=0, high=2**31 - 1, families=_SEEDVR2)
    colour: str = setting("two-scale", group="picture", choices=COLOURS, families=_TRANSFORMERS)
    padding: str = setting(
        "reflect", group="picture", choices=("reflect", "black"), families=_SEEDVR2
    )
    input_noise: int = setting(0, group="picture", unit="%", low=0, high=100, families=_SEEDVR2)
    latent_noise: int = setting(0, group="picture", unit="%", low=0, high=100, families=_SEEDVR2)
    noise_order: str = setting(
        "per-latent", group="picture", choices=("per-latent", "reference"), families=_SEEDVR2
    )
    steadiness: str = setting(
        "auto", group="picture", choices=("auto", "off", "mild"), families=_FRAMES
    )

    shots: str = setting("auto", group="clips", choices=("auto", "off"), families=_SHOTS)
    shot_sensitivity: int = setting(60, group="clips", unit="%", low=0, high=100, families=_SHOTS)
    clip_frames: int = setting(
        0, group="clips", unit="frames", low=0, high=241, low_is_automatic=True, families=_SEEDVR2
    )
    join: str = setting(
        "latents", group="clips", choices=("latents", "frames", "none"), families=_SEEDVR2
    )
    join_frames: int = setting(4, group="clips", unit="frames", low=1, high=32, families=_SEEDVR2)

    blocks_on_device: int = setting(
        -1, group="memory", low=-1, high=64, low_is_automatic=True, families=_TRANSFORMERS
    )
    encode_tile: int = setting(
        0, group="memory", unit="px", low=0, high=16384, low_is_automatic=True, families=_TILED
    )
    decode_tile: int = setting(
        0, group="memory", unit="px", low=0, high=16384, low_is_automatic=True, families=_TILED
    )
    vae_precision: str = setting("auto", group="memory", choices=tuple(VAE_DTYPES), families=_SHOTS)
    attention: str = setting(
        "auto", group="memory", choices=tuple(ATTENTION), families=_TRANSFORMERS
    )
    matmul: str = setting(
        "none",
        group="memory",
        choices=tuple(MATMUL),
        families=_TRANSFORMERS,
        old_names=("products",),
    )

    dit: str = setting("", group="own-files", kind="path", scope="user", families=_TRANSFORMERS)
    vae: str = setting("", group="own-files", kind="path", scope="user", families=_SHOTS)
    text_embedding: str = setting(
        "", group="own-files", kind="path", scope="user", families=_TRANSFORMERS
    )
    model_file: str = setting("", group="own-files", kind="path", scope="user", families=_COMMUNITY)

    latents: str = setting(
        "auto",
        group="latents",
        choices=("auto", "raw", "normalised"),
        scope="source",
        families=_LATENTS,
    )
    latent_rate: float = setting(
        0.0,
        group="latents",
        unit="fps",
        low=0.0,
        high=240.0,
        low_is_automatic=True,
        scope="source",
        families=_LATENTS,
    )
    latent_vae: str = setting("", group="latents", kind="path", scope="source", families=_LATENTS)

    start: str = setting("", group="film", unit="s", kind="time", scope="source")
    stop: str = setting("", group="film", unit="s", kind="time", scope="source")
    deinterlace: str = setting(
        "auto", group="film", choices=("auto", "off", "frames", "fields", "film")
    )
    black_bars: str = setting("enlarge", group="film", choices=("enlarge", "put-back"))
    aspect: str = setting(
        "auto", group="film", choices=("auto", "4:3", "16:9", "square"), scope="source"
    )
    video_stream: int = setting(
        -1, group="film", low=-1, high=65535, low_is_automatic=True, scope="source"
    )
    accept_damaged: bool = setting(False, group="film", scope="user")

    encoder: str = setting("auto", group="file", choices=("auto", "cpu", "nvenc"))
    # Constant, instead of `crf`.
    bit_rate: float = setting(
        0.0, group="file", unit="Mbit/s", low=0.0, high=800.0, low_is_automatic=True
    )
    speed: str = setting("auto", group="file", choices=("auto", "fast", "medium", "slow"))
    bit_depth: int = setting(
        0, group="file", unit="bit", low=0, high=12, values=(0, 8, 10, 12), low_is_automatic=True
    )
    chroma: str = setting("auto", group="file", choices=("auto", "420", "422", "444"))
    sound: str = setting("auto", group="file", choices=SOUND)
    overwrite: bool = setting(False, group="file", scope="source")

    device: str = setting(
        "auto", group="computing", choices=("auto", "all", "cpu", "cuda"), kind="device"
    )
    excluded_gpus: str = setting("", group="computing", kind="gpus", scope="user")
    tile: int = setting(
        0, group="computing", unit="px", low=0, high=4096, low_is_automatic=True, families=_FRAMES
    )
    overlap: int = setting(16, group="computing", unit="px", low=0, high=256, families=_FRAMES)
    workers: int = setting(1, group="computing", low=1, high=64)
    machines: str = setting("off", group="computing", choices=("off", "all"), scope="user")
    segment_seconds: float = setting(5.0, group="computing", unit="s", low=0.5, high=60.0)
    switches: str = setting("", group="computing", kind="switches")

    def __post_init__(self) -> None:
        check(self)

    @property
    def target(self) -> Size | None:
        """Exact size of the result where both sides are given."""
        return Size(self.width, self.height) if self.width and self.height else None

    @property
    def excluded(self) -> tuple[str, ...]:
        """The names in `excluded_gpus`."""
        return names_in(self.excluded_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings of every job on this computer."""

    output_folder: str = setting("", kind="folder")
    name_pattern: str = setting("{name}_{size}", kind="pattern")
    job_folder: str = setting("", kind="folder")
    watch_folder: str = setting("", kind="folder")
    watch_starts: bool = setting(False)
    after_queue: str = setting(
        "nothing", choices=("nothing", "sound", "sleep", "shut-down", "command")
    )
    after_queue_command: str = setting("", kind="command")
    resume_after_update: bool = setting(False)
    lend: bool = setting(False)
    farm_port: int = setting(47110, low=1024, high=65535)
    tile_previews: bool = setting(True)
    memory_share: float = setting(0.7, low=0.1, high=0.95)
    vram_limit: float = setting(1.0, low=0.1, high=1.0)
    threads: int = setting(0, low=0, high=256, low_is_automatic=True)

    def __post_init__(self) -> None:
        check(self)


S = TypeVar("S", JobSettings, EngineSettings)


def names_in(text: str) -> tuple[str, ...]:
    """Names that commas part."""
    return tuple(filter(None, map(str.strip, text.split(","))))


@cache
def describe(settings: type[Any]) -> Mapping[str, Setting]:
    """Name and Setting of every field of a settings class, in reading order."""
    return MappingProxyType({f.name: f.metadata["setting"] for f in fields(settings)})


@cache
def types_of(settings: type[Any]) -> Mapping[str, type[Any]]:
    """Name and type of every setting of a settings class; reading the annotations takes 0.5 ms."""
    return MappingProxyType(get_type_hints(settings))


def about(name: str) -> Setting:
    """The Setting of a setting of jobs or of the program."""
    of_jobs = describe(JobSettings)
    return of_jobs[name] if name in of_jobs else describe(EngineSettings)[name]


def model_family(model: str) -> str:
    """The family of models whose settings count: "lite", "seedvr2" and so on, or "" for none."""
    if model in SEEDVR2:
        return "seedvr2"
    if model in WAN_UPSCALERS:
        return "wan"
    if model in LITE:
        return "lite"
    return model if model in ("community", *SWIFTVR) else ""


def check(settings: Any) -> None:
    """Refuse values outside limits and choices.

    Raises:
        SettingsError: Names the setting, its value and what is allowed.
    """
    kind: Any = type(settings)
    types = types_of(kind)
    for name, limits in describe(kind).items():
        value = getattr(settings, name)
        _check_type(name, value, types[name])
        allowed = limits.choices or limits.values
        if allowed and value not in allowed and limits.kind != "device":
            raise SettingsError(
                "unknown-choice",
                setting=name,
                value=value,
                allowed=", ".join(map(str, allowed)),
            )
        if (limits.low is not None and value < limits.low) or (
            limits.high is not None and value > limits.high
        ):
            raise SettingsError(
                "outside-limits",
                setting=name,
                value=value,
                low=f"{limits.low:g}",
                high=f"{limits.high:g}",
            )
        if limits.kind == "switches":
            check_switches(value)


def _check_type(name: str, value: object, expected: type[Any]) -> None:
    fits = isinstance(value, (int, float) if expected is float else expected)
    if isinstance(value, float) and not math.isfinite(value):
        fits = False
    if not fits or (expected is not bool and isinstance(value, bool)):
        raise SettingsError(
            "wrong-type", setting=name, value=repr(value), expected=type_name(expected)
        )


def type_name(kind: type[Any]) -> Message:
    """Text for the type of a setting: "a whole number"."""
    return message(f"value-type.{kind.__name__}")


def renamed(settings: type[Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with every old name of a setting replaced; where both are there the new one counts.

    Unknown names stay as they are.
    """
    names = current_names(settings)
    old = {names[name]: value for name, value in table.items() if names.get(name, name) != name}
    return old | {name: value for name, value in table.items() if names.get(name, name) == name}


def known(settings: type[Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Result of `renamed`, without the names that this version does not know."""
    names = {field.name for field in fields(settings)}
    found = renamed(settings, table)
    return {name: value for name, value in found.items() if name in names}


def current_names(settings: type[Any]) -> dict[str, str]:
    """Every name under which a setting may be given, old ones too, with its name of today."""
    return {
        name: field.name
        for field in fields(settings)
        for name in (*field.metadata["old_names"], field.name)
    }


def with_values(settings: S, values: Mapping[str, object]) -> S:
    """Copy of the settings with other values, by name."""
    changes: dict[str, Any] = dict(values)
    return dataclasses.replace(settings, **changes)


def with_environment(settings: JobSettings) -> JobSettings:
    """Add the switches that are settings of their own, where these are at their default.

    The text `switches` and the environment (UPREEL_DIT_ATTENTION) may set them as well.
    """
    usual = {field.name: field.default for field in fields(JobSettings)}
    changes: dict[str, Any] = {
        name: value
        for name, value in settings_of(settings.switches).items()
        if getattr(settings, name) == usual[name]
    }
    return dataclasses.replace(settings, **changes)


# --- settings of one video, and those that other videos may get


def for_next_films(settings: JobSettings) -> JobSettings:
    """The settings without those that belong to one video only."""
    usual, fields = JobSettings(), describe(JobSettings)
    names = (name for name, about in fields.items() if about.scope == "source")
    return dataclasses.replace(settings, **{name: getattr(usual, name) for name in names})


def changes_for_others(before: JobSettings, after: JobSettings) -> dict[str, object]:
    """Differences by name, without those that belong to one video only."""
    before, after = for_next_films(before), for_next_films(after)
    values = dataclasses.asdict(after)
    return {name: value for name, value in values.items() if value != getattr(before, name)}


def with_latents_of(source: JobSettings, settings: JobSettings) -> JobSettings:
    """`settings` with those of `source` that say how latents are read."""
    names = (name for name, about in describe(JobSettings).items() if "latents" in about.families)
    return dataclasses.replace(settings, **{name: getattr(source, name) for name in names})
