"""What will be done: every number decided before the start. Plain data, shown in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

from engine.core.geometry import FrameSpan, Size
from engine.core.messages import Message, Param, hint_of, text_of
from engine.protocol.media import Chroma, ColourTags
from engine.settings.switches import Switches

Severity = Literal["info", "warning", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing the user should know before the start, by the code of its message.

    Attributes:
        code: Stable name in kebab-case; its message is `notice.<code>` in the catalogue, or
            `notice.<code>.<case>`.
        severity: "refusal" keeps the job from starting.
    """

    code: str
    severity: Severity
    message: str = ""  # LEGACY: filled from the catalogue
    hint: str = ""  # LEGACY
    params: Mapping[str, Param] = field(default_factory=dict)
    case: str = ""

    def __post_init__(self) -> None:
        if not self.message:
            object.__setattr__(self, "message", text_of(self.as_message))
            object.__setattr__(self, "hint", hint_of(self.as_message))

    @property
    def as_message(self) -> Message:
        """The message of the catalogue that says it."""
        code = f"notice.{self.code}"
        return Message(f"{code}.{self.case}" if self.case else code, dict(self.params))


Join = Literal["latents", "frames", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsPlan:
    """A file with the numbers of a model, and what tells whether it is still the same one."""

    path: Path
    published: str = ""  # id in the catalogue; "" for a file of the user's own
    bytes: int = 0
    modified_ns: int = 0  # 0 for a file that is not on this machine

    @property
    def is_here(self) -> bool:
        """Whether the file was there when the job was planned."""
        return self.modified_ns > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionPlan:
    """How SeedVR2 restores a film: files, sizes, clips, and what the user chose."""

    dit: WeightsPlan
    vae: WeightsPlan
    text: WeightsPlan
    size: Size  # of the picture that is made, as stored
    padded: Size  # of the frames that the model takes
    reflected: int  # rows and columns of them that show the picture mirrored; the rest is black
    clip: int  # latents of a clip; frames where clips are joined as frames or not at all
    shared: int  # of them, that neighbouring clips have in common
    join: Join = "latents"
    encode_tile: Size | None = None  # px of the result; None for whole frames
    decode_tile: Size | None = None
    decodes_whole_tiles: bool = False  # all of the decoder in tiles, not only its large part
    warm_up: int = 0  # latents that tiles begin early; 0 where they go on with a carry
    vae_dtype: str = "float32"
    blocks_on_device: int | None = None  # None: all of them, and the text's weights too
    pin_bytes: int = 0  # of main memory, for copies of the other blocks
    attention: str = "auto"
    products: str = "none"
    strength: int = 100  # %
    seed: int = 0
    noise_order: str = "per-latent"
    input_noise: int = 0  # %
    latent_noise: int = 0  # %
    colour: str = "two-scale"
    shot_sensitivity: int | None = None  # %; None looks for no cuts

    @property
    def weights(self) -> tuple[WeightsPlan, WeightsPlan, WeightsPlan]:
        """The files that are needed."""
        return self.dit, self.vae, self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class WanPlan:
    """How Wan 2x enlarges a film: shot by shot, encoded and decoded twice as large."""

    vae: WeightsPlan
    size: Size  # of the source's pictures, as stored
    padded: Size  # of the frames that are encoded
    factor: int = 2  # of both sides, from the encoded frames to the decoded ones
    slice_frames: int = 4  # that the encoder takes at a time
    encode_tile: Size | None = None  # px of the source, halo included; None for whole frames
    decode_tile: Size | None = None  # px of the result, halo included
    warm_up: int = 0  # latents that tiles begin early; 0 where they go on with a carry
    parks: bool = False  # carries of whole frames wait in main memory while tiles are visited
    shot_sensitivity: int | None = None  # %; None looks for no cuts

    @property
    def canvas(self) -> Size:
        """Size of the pictures that the model makes."""
        return self.size.scaled(self.factor)

    @property
    def weights(self) -> tuple[WeightsPlan, ...]:
        """The files that are needed."""
        return (self.vae,)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentPlan:
    """How a source of latents becomes pictures, once, before anything else is done."""

    vae: WeightsPlan
    model: str  # "wan21-vae" or "wan22-vae"
    normalised: bool  # whether the numbers are to be brought to the VAE's scale first
    device: str = "cpu"
    dtype: str = "float32"
    decode_tile: Size | None = None  # px, halo included; None for whole frames

    @property
    def weights(self) -> tuple[WeightsPlan, ...]:
        """The files that are needed."""
        return (self.vae,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """How the picture is redrawn."""

    model: str  # "lite", "none", "seedvr2-3b" and so on
    form: str = ""  # of Lite: "faithful" or "restore"
    scale: int = 1  # of the model itself; the rest is resized afterwards
    weights: str = ""  # file name in resources/weights, "" for none
    weights_sha256: str = ""
    device: str = "cpu"
    dtype: str = "float32"
    clip_frames: int = 1
    tile: Size = Size(0, 0)  # in source pixels, halo included
    overlap: int = 0  # px
    tiles: int = 1  # per frame
    threads: int = 1
    diffusion: DiffusionPlan | None = None  # of SeedVR2
    wan: WanPlan | None = None  # of Wan 2x
    switches: Switches = field(default_factory=Switches)

    @property
    def takes_shots(self) -> bool:
        """Whether frames depend on those before, so that the model is fed shot by shot."""
        return self.diffusion is not None or self.wan is not None

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """Files with numbers that are no part of the program."""
        parts = (self.diffusion, self.wan)
        return tuple(file for part in parts if part is not None for file in part.weights)

    @property
    def shot_sensitivity(self) -> int | None:
        """How readily a cut is seen, %; None where no cuts are looked for."""
        part = self.diffusion or self.wan
        return None if part is None else part.shot_sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePlan:
    """How the new picture is written."""

    size: Size  # of the result as stored
    codec: str  # "h264", "hevc", "av1", "prores", "ffv1", "png", "tiff"
    encoder: str  # FFmpeg's name, e.g. "libx264"
    pixel_format: str  # e.g. "yuv420p10le"
    chroma: Chroma
    bit_depth: int
    has_alpha: bool = False
    tags: ColourTags = field(default_factory=ColourTags)
    sample_aspect: Fraction = Fraction(1)
    rotation: int = 0  # clockwise degrees, kept as metadata: pixels stay as stored
    is_mirrored: bool = False
    frame_rate: Fraction = Fraction(25)  # nominal, frames/s
    time_base: Fraction = Fraction(1, 1000)
    options: dict[str, str] = field(default_factory=dict)  # of the encoder
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """What happens to one other stream: copied unchanged, or left out and why."""

    index: int  # in the source
    kind: str
    codec: str
    copied: bool
    why: str | Message = ""  # when left out; text in plans that older versions stored


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Predicted memory and time of one stage.

    Stages that the model computes: "encode", "transformer" and "decode" of models that take shots,
    else "upscale"; around them "latents" (a file of latents becomes a film), "read", "restore",
    "write" and "verify".
    """

    stage: str
    peak_bytes: int  # of main memory, the whole program included
    seconds: float
    device_bytes: int = 0  # most on the card, weights included; 0 for what a processor computes


Limit = Literal["video-memory", "memory", "settings", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One step away from a plan, and what it would change."""

    code: str  # e.g. "longer-clips", "larger-decode-tiles", "more-blocks-on-card", "smaller-file"
    message: str
    device_bytes: int
    ram_bytes: int
    seconds: float
    fits: bool
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Why a plan is as it is, in words."""

    limited_by: Limit
    message: str
    params: dict[str, str] = field(default_factory=dict)
    choices: tuple[Notice, ...] = ()  # what was decided, one line each: model, clips, tiles, blocks
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is decided before a job starts."""

    source: Path
    output: Path
    container: str  # "mp4", "mkv", "mov", "image", "sequence"
    pattern: str = ""  # of the pictures in a "sequence", as "shot_%04d.png"; "" as the source's
    source_size: Size
    span: FrameSpan  # frames of the source; stop may be an estimate
    start: Fraction | None = None  # s, None for the first frame
    stop: Fraction | None = None
    model: ModelPlan
    latent: LatentPlan | None = None  # where the source is a file of latents
    picture: PicturePlan
    streams: tuple[PassPlan, ...] = ()
    segment_frames: int = 120
    stages: tuple[StagePlan, ...] = ()
    peak_bytes: int = 0
    budget_bytes: int = 0
    seconds: float = 0.0
    seconds_error: float = 0.0  # plus or minus
    output_bytes: int = 0
    free_disk_bytes: int = 0
    card: str = ""  # that is planned for, e.g. "RTX 5070 Ti, 16 GB"; "" for the processor
    is_pretended: bool = False  # planned for a card that is not here: cannot start
    device_bytes: int = 0  # most on the card
    device_budget_bytes: int = 0
    is_measured: bool = False  # the time follows from what was measured on this machine
    reasons: Reasons | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def frames(self) -> int:
        """Frames to do; an estimate where the container does not count them."""
        return len(self.span)

    @property
    def fits(self) -> bool:
        """False when a notice refuses to start."""
        return all(notice.severity != "refusal" for notice in self.notices)
