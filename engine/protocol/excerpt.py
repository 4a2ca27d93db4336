"""An excerpt: a few frames of a video, made as its job would make them, before hours are spent.

The frames beside the part are not read: where a job looks at neighbours, the first and the last
frame of an excerpt lack one, and a single frame lacks both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings

SceneKind = Literal["dark", "motion", "text", "texture", "flat"]
SCENE_KINDS: tuple[SceneKind, ...] = get_args(SceneKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Part of a video where models tell themselves apart."""

    kind: SceneKind
    seconds: float  # time in the source


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A part of a video that was tried."""

    settings: JobSettings  # settings it was made with
    # Plan of the whole video with these settings, but for its part, its result and its streams: the
    # result has frames only.
    plan: Plan
    frames: int  # number of frames made
    frames_per_second: float  # measured, without loading the model; 0 where it was over too soon
    device_bytes: int  # most that was measured on the GPU; 0 for the CPU

    def holds(self, seconds: float) -> bool:
        """Whether a time of the source, in s, lies in the part."""
        first = self.plan.start or Fraction(0)
        return first <= seconds and (self.plan.stop is None or seconds < self.plan.stop)

    def shows(self, settings: JobSettings, plan: Plan) -> bool:
        """Whether a job with these settings and this plan would make the same frames."""
        return self.has(settings) and self.plan.work.model == plan.work.model

    def has(self, settings: JobSettings) -> bool:
        """Whether it was made with these settings, whatever part of the video they name."""
        return _of_frames(self.settings) == _of_frames(settings)


def for_look(settings: JobSettings) -> JobSettings:
    """Settings of a first look at a video: its size, by Lite, in a file that is written at once.

    The CPU computes it, so that no GPU has to be woken or waited for; "auto" for the file keeps
    whatever the source has, such as its depth and HDR.
    """
    usual = JobSettings()
    of_file = ("container", "codec", "crf", "bit_rate", "bit_depth", "chroma")
    return replace(
        settings,
        model="lite",
        first_model="",
        device="cpu",
        workers=1,
        machines="off",
        switches="",
        encoder="cpu",
        speed="fast",
        **{name: getattr(usual, name) for name in of_file},
    )


def _of_frames(settings: JobSettings) -> JobSettings:
    """Settings without the part of the video and what becomes of an older result."""
    return replace(settings, start="", stop="", overwrite=False)
