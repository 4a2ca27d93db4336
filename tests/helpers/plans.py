"""Plans, media and budgets without files; plans for GPUs that are not here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.core.geometry import FrameSpan, Size
from engine.core.messages import message
from engine.hardware.budget import Budget
from engine.models.copy.family import CopyPlan
from engine.models.frame_family import FramePlan
from engine.models.planning.memory import MemoryRequirement
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import Alternative, Notice, PicturePlan, Plan, Reasons, StagePlan


def a_media(**video: Any) -> MediaInfo:
    """A ten-second film of 640x360 at 25 frames/s, with any field of its picture changed."""
    about = VideoInfo(
        index=0,
        codec="h264",
        size=Size(640, 360),
        pixel_format="yuv420p",
        chroma="420",
        bit_depth=8,
        frame_rate=Fraction(25),
        frame_count=250,
        duration=Fraction(10),
        bit_rate=3_000_000,
    )
    return MediaInfo(
        path=Path("film.mkv"),
        kind="video",
        container="matroska,webm",
        bytes=4_000_000,
        video=replace(about, **video),
    )


def a_plan(**changes: Any) -> Plan:
    """A plan for `a_media`, with any field changed."""
    plan = Plan(
        source=Path("film.mkv"),
        output=Path("film_x2.mkv"),
        container="mkv",
        source_size=Size(640, 360),
        span=FrameSpan(0, 250),
        work=CopyPlan(frame=Size(640, 360), tile=Size(640, 360)),
        picture=PicturePlan(
            size=Size(1280, 720),
            codec="h264",
            encoder="libx264",
            pixel_format="yuv420p",
            chroma="420",
            bit_depth=8,
        ),
    )
    return replace(plan, **changes)


def a_budget(**changes: Any) -> Budget:
    """A machine with 16 GB to give, four cores, no GPU and an empty disk."""
    budget = Budget(
        ram_bytes=16 * 10**9, threads=4, free_output_bytes=10**12, free_jobs_bytes=10**12
    )
    return replace(budget, **changes)


GIB = 2**30
GPU = "RTX 5070 Ti, 16 GB"

PRETENDED = Notice(code="pretended-card", severity="refusal", params={"gpu": GPU})


def to_download(case: str = "model", **params: str) -> Notice:
    """The refusal of a plan whose files are not here, with any of its values changed."""
    usual = {
        "model": "seedvr2-3b",
        "title": "SeedVR2 3B",
        "gpu": GPU,
        "files": "",
        "file": "seedvr2-3b-fp16",
        "names": "a.safetensors, b.pt",
        "bytes": "7280000000",
        "size": "7.3 GB",
        "seconds": "1165",
        "time": "19 min",
        "speed": "50 Mbit/s",
        "needs_runtime": "",
        "runtime_bytes": "0",
        "runtime_size": "0 B",
        "offers": "model=lite",
    }
    return Notice(code="weights-missing", case=case, severity="refusal", params={**usual, **params})


REASONS = Reasons(
    limited_by="video-memory",
    params={"size": "11.4 GB", "budget": "15.0 GB"},
    choices=(
        Notice(
            code="model",
            case="file",
            severity="info",
            params={"title": "SeedVR2 3B", "name": "a.safetensors", "dtype": "float16"},
        ),
        Notice(code="clips", case="frames", severity="info", params={"frames": "45"}),
    ),
    alternatives=(
        Alternative(
            code="longer-clips",
            message=message("step.clips", frames=49),
            device_bytes=16 * GIB,
            ram_bytes=6 * GIB,
            seconds=2600.0,
            fits=False,
        ),
        Alternative(
            code="smaller-decode-tiles",
            message=message("step.decode-tiles", size="640x512"),
            device_bytes=9 * GIB,
            ram_bytes=6 * GIB,
            seconds=2940.0,
            fits=True,
        ),
    ),
)


def on_gpu(plan: Plan, *, needed: float = 11.4, limit: float = 15.0) -> Plan:
    """The same plan for a GPU: the most that is needed on it, and its limit, GiB."""
    shares = {"encode": 0.8, "transformer": 0.9, "decode": 1.0}
    on_device = tuple(
        StagePlan(
            stage=stage, peak_bytes=5 * GIB, seconds=900.0, device_bytes=round(share * needed * GIB)
        )
        for stage, share in shares.items()
    )
    around = tuple(stage for stage in plan.stages if stage.stage in ("read", "write"))
    return replace(
        plan,
        stages=(*around[:1], *on_device, *around[1:]),
        work=replace(plan.work, device="cuda"),
        card=GPU,
        device_bytes=round(needed * GIB),
        device_budget_bytes=round(limit * GIB),
        peak_bytes=6 * GIB,
        budget_bytes=20 * GIB,
        seconds=2700.0,
        seconds_low=2460.0,
        seconds_high=3000.0,
        is_measured=True,
        reasons=REASONS,
    )


def pretended(plan: Plan) -> Plan:
    """A plan for a GPU that is not here: it fits, and cannot start."""
    return replace(plan, is_pretended=True, notices=(*plan.notices, PRETENDED))


# --- a model whose bytes are round numbers, for sums that a reader can check

MB = 10**6
_NOTHING = MemoryRequirement(weights=0, working={}, finishing=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan(FramePlan):
    """Frames or shots go through it; what it takes is part of the plan."""

    family: str = "round"
    model: str = "round"
    frame: Size = Size(1000, 1000)
    tile: Size = Size(1000, 1000)
    takes: MemoryRequirement = field(default=_NOTHING, hash=False)
    around: tuple[int, int] = (0, 0)
    shot_sensitivity: int | None = field(default=None)

    @property
    def takes_shots(self) -> bool:
        return self.shot_sensitivity is not None


def round_needs(weights: int, finished: int = 2, waiting: int = 0, **working: int) -> Any:
    """A requirement in MB: 7 of them when frames are finished, 8 while nothing works."""
    stages = {name: size * MB for name, size in working.items()}
    more = {"finishing": 7 * MB, "between": 8 * MB, "finished": finished, "waiting": waiting}
    return MemoryRequirement(weights=weights * MB, working=stages, **more)
