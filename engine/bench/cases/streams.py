"""Case `streams`: whole jobs of SeedVR2 in tiles next to the same job on whole frames.

On the processor, with random weights: what tiles and spans cost on a GPU beyond their operations
(copies of carries) is not in it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from engine.bench.clips import SyntheticClip
from engine.bench.options import BenchOptions
from engine.bench.random_model_files import write_seedvr2
from engine.bench.report.machine import Row
from engine.bench.timing.one_job import run_once
from engine.core.geometry import Size
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.planning.requirements import stage_work
from engine.pipeline.prepare import Machine, make_plan
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings

_SOURCE, _FRAMES, _QUICK_FRAMES = Size(240, 128), 29, 21
_CLIP = 3  # latents
_PARTS = 8  # of the channels of the published VAE one is taken
_TILE = {"encode_tile": Size(256, 288), "decode_tile": Size(296, 288)}
_SPAN = {"encode_span": 4, "decode_span": 4}
_WHOLE = "whole frames"
_STREAMS: dict[str, dict[str, Any]] = {
    _WHOLE: {"encode_tile": None, "decode_tile": None},
    "tiles, one span": {**_TILE, "encode_span": 100, "decode_span": 100},
    "tiles, spans of 4, carries stay": {**_TILE, **_SPAN},
    "tiles, spans of 4, early": {**_TILE, **_SPAN, "warm_up": 2},
    "all in tiles, spans of 4": {**_TILE, **_SPAN, "decodes_whole_tiles": True},
}


def stream_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each stream.

    `time` and `operations` are ratios to whole frames, of CPU time of the whole job and of the
    operations of encoder, transformer and decoder; `time_of_operations` is the first over the
    second.
    """
    frames = _QUICK_FRAMES if options.quick else _FRAMES
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as name:
        clip = SyntheticClip(Path(name), _SOURCE, frames)
        plan, work = _planned(clip, options)
        works = {title: replace(work, **changes) for title, changes in _STREAMS.items()}
        seconds: dict[str, list[float]] = {title: [] for title in works}

        def run(title: str) -> float:
            job = replace(plan, work=works[title])
            return run_once(clip.media, job, clip.folder).cpu_s

        run(_WHOLE)  # torch tries convolutions out, files are in memory
        for _ in range(options.runs or (1 if options.quick else 3)):
            for title, found in seconds.items():
                found.append(run(title))
        most = _operations(works[_WHOLE], frames)
        base = statistics.median(seconds[_WHOLE])
        for title, found in seconds.items():
            time = statistics.median(found) / base
            operations = _operations(works[title], frames) / most
            yield {
                "stream": title,
                "cpu_s": base * time,
                "time": time,
                "operations": operations,
                "time_of_operations": time / operations,
            }


def _planned(clip: SyntheticClip, options: BenchOptions) -> tuple[Plan, SeedVr2Plan]:
    """The plan of the job, and how its model works, but for tiles and spans."""
    settings = write_seedvr2(clip.folder, codec="ffv1", parts=_PARTS)
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=clip.folder)
    plan = make_plan(clip.media, settings, clip.folder / "result.mkv", machine)
    work, threads = plan.work, options.threads or torch.get_num_threads()
    assert isinstance(work, SeedVr2Plan)
    return plan, replace(work, threads=threads, clip=_CLIP, shared=1, warm_up=0)


def _operations(work: SeedVr2Plan, frames: int) -> float:
    return sum(stage_work(work, frames).values())
