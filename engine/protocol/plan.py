"""Plan of a job: every number decided before the start. Plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

from engine.core.errors import EngineError
from engine.core.geometry import Box, FrameSpan, Size
from engine.core.messages import HasMessage, Message, Param, has_text
from engine.protocol.media import Chroma, ColourTags, Deinterlacing, HdrMetadata
from engine.settings.switches import Switches

Severity = Literal["info", "warning", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(HasMessage):
    """One thing the user should know before the start, by the code of its message."""

    # Stable name in kebab-case; its message is `notice.<code>` or `notice.<code>.<case>`.
    code: str
    severity: Severity  # "refusal" keeps the job from starting
    params: Mapping[str, Param] = field(default_factory=dict)
    case: str = ""

    @property
    def as_message(self) -> Message:
        """The message of the catalogue: that of an error where the notice has its code."""
        code = f"{self.code}.{self.case}" if self.case else self.code
        own = f"notice.{code}"
        return Message(own if has_text(own) else code, dict(self.params))


def notice_of_error(error: EngineError, severity: Severity) -> Notice:
    """An error as a notice: the same code, sentence and hint."""
    info = error.info()
    return Notice(code=info.code, case=info.case, severity=severity, params=info.params)


_MARK_OF_COPIES = re.compile("^own-[0-9a-f]{8}-")


def name_of_copy(name: str, digest: str) -> str:
    """File name of an imported copy, which no published file has; the SHA-256 tells them apart."""
    return f"own-{digest[:8]}-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsPlan:
    """A weights file of a model, and what shows whether it is still the same one."""

    path: Path
    published: str = ""  # id in the catalogue; "" for a file of the user's own
    bytes: int = 0
    modified_ns: int = 0  # 0 for a file that is not on this machine

    @property
    def is_here(self) -> bool:
        """Whether the file was there when the job was planned."""
        return self.modified_ns > 0

    @property
    def name(self) -> str:
        """Name of the file as the user knows it: an imported copy carries a mark before it."""
        return _MARK_OF_COPIES.sub("", self.path.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentPlan:
    """Decoding of a source of latents to frames, once, before anything else is done."""

    vae: WeightsPlan
    model: str  # "wan21-vae" or "wan22-vae"
    normalised: bool  # whether the values are to be brought to the VAE's scale first
    device: str = "cpu"
    dtype: str = "float32"
    decode_tile: Size | None = None  # px, halo included; None for whole frames
    at_once: int = 1  # tiles in work at a time
    warm_up: int = 0  # latents that tiles begin early; 0 where they go on with a carry
    parks: bool = False  # carries of whole frames wait in main memory while tiles are visited
    fp16_sums: bool = True  # False: none, whatever the switch says


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """Redrawing of the frames: properties of every family of models.

    Each family of models has a class of its own with the rest, in its folder. The field `family` is
    the tag by which a plan is read back from JSON; the properties are what others may ask of a plan
    without knowing its family.
    """

    family: str  # name of the folder below engine/models
    model: str  # "lite", "none", "seedvr2-3b" and so on
    device: str = "cpu"
    dtype: str = "float32"
    clip_frames: int = 1  # frames of the source handled at a time
    threads: int = 1
    switches: Switches = field(default_factory=Switches)

    @property
    def takes_shots(self) -> bool:
        """Whether frames depend on those before, so that the model is fed shot by shot."""
        return False

    @property
    def shot_sensitivity(self) -> int | None:
        """Sensitivity of the search for cuts, %; None where there is no search."""
        return None

    @property
    def scale(self) -> int:
        """Factor of both sides by the model itself; the rest is resized afterwards."""
        return 1

    @property
    def canvas(self) -> Size:
        """Size of the pictures that the model makes, as stored."""
        raise NotImplementedError

    @property
    def is_single_frames(self) -> bool:
        """Whether frames are restored each by itself by a model that is made for clips."""
        return False

    @property
    def step_values(self) -> dict[str, str]:
        """Settings with which the user gets this plan."""
        return {}

    @property
    def tiles(self) -> int:
        """Tiles that a frame is cut into where frames are redrawn one by one."""
        return 1

    @property
    def steadiness(self) -> str:
        """Blending of frames with their neighbours in still areas: "off" or "mild"."""
        return "off"

    @property
    def sees_neighbours(self) -> bool:
        """Whether each frame is redrawn from it and the frames before and after it."""
        return False

    @property
    def reach(self) -> int:
        """Frames of the source on each side that a frame of the result depends on.

        Models of shots say themselves where they begin, see `ShotModel.first_needed`.
        """
        return self.sees_neighbours + (self.steadiness != "off")

    @property
    def weights_files(self) -> tuple[WeightsPlan, ...]:
        """Weights files that are no part of the program."""
        return ()

    @property
    def architecture(self) -> str:
        """Architecture of the network in those files, where `model` does not tell it."""
        return ""

    @property
    def pins(self) -> bool:
        """Whether main memory is pinned for transfers."""
        return self.switches.run.pinned_transfers

    @property
    def pin_bytes(self) -> int:
        """Pinned main memory for copies of weights."""
        return 0

    @property
    def decided(self) -> dict[str, str]:
        """Chosen values of settings that are "auto", by their names."""
        return {}

    @property
    def line(self) -> str:
        """The plan in one line for a terminal."""
        return f"{self.model}, {self.device}, {self.dtype}"

    @property
    def summary(self) -> tuple[Notice, ...]:
        """The plan in a few short phrases, for a place where there is room for one line."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePlan:
    """Encoding of the new frames."""

    size: Size  # size of the result as stored
    codec: str  # "h264", "hevc", "av1", "vp9", "prores", "ffv1", "png", "tiff", "exr", "dpx"
    encoder: str  # FFmpeg's name, e.g. "libx264"
    pixel_format: str  # e.g. "yuv420p10le"
    chroma: Chroma
    bit_depth: int
    has_alpha: bool = False
    tags: ColourTags = field(default_factory=ColourTags)
    hdr_metadata: HdrMetadata | None = None  # metadata that the encoder writes
    sample_aspect: Fraction = Fraction(1)
    rotation: int = 0  # clockwise degrees, kept as metadata: pixels stay as stored
    is_mirrored: bool = False
    frame_rate: Fraction = Fraction(25)  # nominal, frames/s
    time_base: Fraction = Fraction(1, 1000)
    options: dict[str, str] = field(default_factory=dict)  # options of the encoder
    threads: int = 1

    @property
    def seen_size(self) -> Size:
        """The picture as seen: after rotation; pixels may still be non-square."""
        return self.size.transposed() if self.rotation in (90, 270) else self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """Fate of one other stream: copied unchanged, decoded, or left out and why."""

    index: int  # in the source
    kind: str
    codec: str
    copied: bool  # whether the result has it
    converted: str = ""  # codec that its samples are stored in; "" where packets are copied
    why: str | Message = ""  # if converted or left out; text in plans that older versions stored
    is_lossy: bool = False  # whether that codec loses something
    dropped: int = 0  # damaged packets that the container does not take
    is_mixed: bool = False  # sound whose later channels or rate become those at its beginning


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Predicted memory and time of one stage.

    Stages that the model computes: "encode", "transformer" and "decode" of models that take shots,
    else "upscale", and "steady" where frames are blended with their neighbours; before them "clean"
    of a first pass; around them "latents" (a file of latents becomes a video), "read", "restore",
    "write" and "verify".
    """

    stage: str
    peak_bytes: int  # main memory, the whole program included
    seconds: float
    device_bytes: int = 0  # most on the GPU, weights included; 0 for what a CPU computes


Limit = Literal[
    "video-memory", "vram-limit", "memory", "commit", "gpu-losses", "settings", "nothing"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One step away from a plan, and what it would change."""

    code: str  # e.g. "longer-clips", "larger-decode-tiles", "more-blocks-on-card", "smaller-file"
    message: Message | None  # None for the plan itself
    device_bytes: int
    ram_bytes: int
    seconds: float
    fits: bool
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons(HasMessage):
    """Why a plan is as it is."""

    limited_by: Limit
    params: Mapping[str, Param] = field(default_factory=dict)
    choices: tuple[Notice, ...] = ()  # decisions, one line each: model, clips, tiles, blocks
    alternatives: tuple[Alternative, ...] = ()

    @property
    def as_message(self) -> Message:
        """The limit of the plan."""
        return Message(f"reason.limit.{self.limited_by}", dict(self.params))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """A process that makes spans of a video, next to others."""

    gpu: str = ""  # value of the setting `device`; "" for the CPU
    card: str = ""  # title of the GPU, with its number where several are alike; "" for the CPU
    share: float = 0.0  # share of the frames that it is expected to make; 0 for the CPU


PassName = Literal["latent", "first_pass", "work"]  # fields of a plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is decided before a job starts."""

    source: Path
    output: Path
    container: str  # "mp4", "mkv", "mov", "webm", "image", "sequence"
    pattern: str = ""  # names in a "sequence", like "shot_%04d.png"; "": the source's
    source_size: Size  # stored size of the source
    source_rotation: int = 0  # clockwise degrees
    # Conversion of the source's frames into those of the job.
    deinterlacing: Deinterlacing | None = None
    enlarged: Box | None = None  # part of the source within black bars, which are put back
    span: FrameSpan  # frames of the job; stop may be an estimate
    start: Fraction | None = None  # s, None for the first frame
    stop: Fraction | None = None
    work: WorkPlan
    first_pass: WorkPlan | None = None  # a model of frames that keeps the size, before `work`
    latent: LatentPlan | None = None  # None unless the source is a file of latents
    picture: PicturePlan
    streams: tuple[PassPlan, ...] = ()
    segment_frames: int = 120
    workers: tuple[WorkerPlan, ...] = ()  # none: the process of the job makes all segments
    takes_machines: bool = False  # other computers may make parts of the video
    span_segments: int = 1  # segments that a worker gets at a time
    stages: tuple[StagePlan, ...] = ()
    window_bytes: int = 0  # main memory of the window that runs the job in its process
    peak_bytes: int = 0
    budget_bytes: int = 0
    seconds: float = 0.0
    seconds_low: float = 0.0  # range of the time; 0 in plans of earlier versions
    seconds_high: float = 0.0
    output_bytes: int = 0
    free_disk_bytes: int | None = 0  # None where the folder of the result does not exist
    gpu: str = ""  # value of the setting `device` that is planned for; "" for the CPU
    card: str = ""  # its title, e.g. "RTX 5070 Ti, 16 GB"; "" for the CPU
    is_pretended: bool = False  # planned for a GPU that is not here: cannot start
    device_bytes: int = 0  # most on the GPU
    device_budget_bytes: int = 0  # for tensors
    device_limit_bytes: int = 0  # limit of torch's reservation for them, gaps included
    is_measured: bool = False  # the time follows from what was measured on this machine
    reasons: Reasons | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def stored_size(self) -> Size:
        """Size of the result as the source's frames are stored, before pixels are turned."""
        is_turned = (self.source_rotation - self.picture.rotation) % 360 in (90, 270)
        return self.picture.size.transposed() if is_turned else self.picture.size

    @property
    def source_seen_size(self) -> Size:
        """The source as seen: after rotation."""
        is_turned = self.source_rotation in (90, 270)
        return self.source_size.transposed() if is_turned else self.source_size

    @property
    def passes(self) -> tuple[WorkPlan, ...]:
        """Plans of the models that frames go through, in their order."""
        return (self.work,) if self.first_pass is None else (self.first_pass, self.work)

    @property
    def frames(self) -> int:
        """Frames to do; an estimate where the container does not count them."""
        return len(self.span)

    @property
    def format(self) -> str:
        """Value of the setting `container` that means this result: "mp4", "png"."""
        return self.picture.codec if self.container in ("image", "sequence") else self.container

    @property
    def only_converts(self) -> bool:
        """Whether pictures are neither redrawn nor resized."""
        is_redrawn = self.work.model != "none" or self.first_pass is not None
        return not is_redrawn and self.source_size == self.stored_size

    @property
    def expected_seconds(self) -> tuple[float, float]:
        """Least and most that the job should take."""
        return self.seconds_low or self.seconds, self.seconds_high or self.seconds

    @property
    def fits(self) -> bool:
        """False when a notice refuses to start."""
        return all(notice.severity != "refusal" for notice in self.notices)
