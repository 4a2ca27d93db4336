"""Time of planning: a job of Lite, and some of SeedVR2 for a GPU that is only pretended.

`python -m tools.figures.planning` plans in this process and writes milliseconds as JSON.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.core.geometry import Size
from engine.core.paths import jobs_folder, resource
from engine.hardware.devices import pretended
from engine.pipeline.prepare import Machine, make_plan, probe_source
from engine.protocol.media import MediaInfo
from engine.settings.schema import EngineSettings, JobSettings
from tools.figures.child import Children, cpu_seconds, report

_GPU = "NVIDIA GeForce RTX 4080"
_LITE = JobSettings(model="lite", scale=2)
_SEEDVR2 = JobSettings(model="seedvr2-3b", height=1440)
_FIRST = Size(1280, 720)
_OTHERS = Size(1248, 704), Size(1216, 688), Size(1184, 672)
_MS = 1000.0


def measure(children: Children) -> dict[str, float]:
    """CPU milliseconds of one process."""
    return children.figures("-m", "tools.figures.planning")


def _child() -> dict[str, float]:
    sample = probe_source(resource("samples", "upreel_sample.mp4"), JobSettings())
    here = Machine(settings=EngineSettings(), jobs_folder=jobs_folder())
    there = replace(here, pretend=pretended(_GPU))

    def plan(settings: JobSettings, machine: Machine, media: MediaInfo = sample) -> float:
        work = partial(make_plan, media, settings, Path("result.mkv"), machine)
        return _MS * cpu_seconds(work)

    others = [_of_size(sample, size) for size in _OTHERS]
    return {
        "planning.lite": plan(_LITE, here),
        "planning.seedvr2_first": plan(_SEEDVR2, there, _of_size(sample, _FIRST)),
        "planning.seedvr2_size": statistics.median(plan(_SEEDVR2, there, o) for o in others),
        "planning.seedvr2_again": statistics.median(plan(_SEEDVR2, there, o) for o in others),
    }


def _of_size(media: MediaInfo, size: Size) -> MediaInfo:
    return replace(media, video=replace(media.video, size=size))


if __name__ == "__main__":
    report(_child())
