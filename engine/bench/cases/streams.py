"""Case `streams`: whole jobs of SeedVR2 in tiles next to the same job on whole frames.

On the processor, with random weights: what tiles and spans cost on a GPU beyond their operations
(copies of carries) is not in it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.bench.clips import SyntheticClip
from engine.bench.options import BenchOptions
from engine.bench.random_model_files import write_seedvr2
from engine.bench.report.machine import Row
from engine.bench.timing.one_job import TimedJob, run_once
from engine.bench.timing.process_memory import memory_of
from engine.core.geometry import Size
from engine.core.serialization import from_plain
from engine.models import registry
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.planning.requirements import stage_work
from engine.pipeline.prepare import Machine, make_plan
from engine.planner.peaks import ram_bytes
from engine.protocol.plan import Plan, WorkPlan
from engine.settings.schema import EngineSettings

_SOURCE, _FRAMES, _QUICK_FRAMES = Size(240, 128), 21, 13
_CLIP = 3  # latents
_PARTS = 8  # of the channels of the published VAE one is taken
_TILE = {"encode_tile": Size(256, 288), "decode_tile": Size(296, 288)}
_STREAMS: dict[str, dict[str, Any]] = {
    "whole frames": {},
    "tiles, one span": {**_TILE, "encode_span": 100, "decode_span": 100},
    "tiles, spans of 3, carries stay": {**_TILE, "encode_span": 3, "decode_span": 3},
    "tiles, spans of 3, early": {**_TILE, "encode_span": 3, "decode_span": 3, "warm_up": 2},
    "all in tiles, spans of 3": {
        **_TILE,
        "encode_span": 3,
        "decode_span": 3,
        "decodes_whole_tiles": True,
    },
}
_MIB = 2**20


def stream_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each stream.

    `time` and `operations` are ratios to whole frames, of CPU time of the whole job and of the
    operations of encoder, transformer and decoder; `time_of_operations` is the first over the
    second. `peak_mib` is that of a process of its own, `planned_mib` what its plan says.
    """
    frames = _QUICK_FRAMES if options.quick else _FRAMES
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as name:
        clip = SyntheticClip(Path(name), _SOURCE, frames)
        plan, work = _whole(clip, options)
        jobs = {
            title: StreamJob(clip=clip, plan=plan, work=replace(work, **changes))
            for title, changes in _STREAMS.items()
        }
        jobs["whole frames"].run()  # torch tries convolutions out, files are in memory
        seconds: dict[str, list[float]] = {title: [] for title in jobs}
        for _ in range(options.runs or (1 if options.quick else 3)):
            for title, job in jobs.items():
                seconds[title].append(job.run().cpu_s)
        first = jobs["whole frames"]
        base = statistics.median(seconds["whole frames"])
        for title, job in jobs.items():
            time = statistics.median(seconds[title]) / base
            operations = job.operations / first.operations
            row: Row = {
                "stream": title,
                "cpu_s": base * time,
                "time": time,
                "operations": operations,
                "time_of_operations": time / operations,
            }
            yield row | (_memory(job) if options.memory else {})


def _whole(clip: SyntheticClip, options: BenchOptions) -> tuple[Plan, SeedVr2Plan]:
    """The plan of the job, and how its model takes whole frames."""
    settings = write_seedvr2(clip.folder, codec="ffv1", parts=_PARTS)
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=clip.folder)
    plan = make_plan(clip.media, settings, clip.folder / "result.mkv", machine)
    work = plan.work
    assert isinstance(work, SeedVr2Plan)
    threads = options.threads or torch.get_num_threads()
    work = replace(work, threads=threads, clip=_CLIP, shared=1, encode_tile=None, decode_tile=None)
    return plan, work


def _memory(job: StreamJob) -> Row:
    found = memory_of(job)
    peak, planned = (found.loaded_bytes + found.peak_bytes) / _MIB, ram_bytes(job.whole_plan) / _MIB
    return {"peak_mib": peak, "planned_mib": planned, "planned_of_peak": planned / peak}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob:
    """A job that is measured; plain data, so that another process can do it."""

    clip: SyntheticClip
    plan: Plan
    work: SeedVr2Plan  # in place of the plan's

    @property
    def threads(self) -> int:
        """Of the processor."""
        return self.work.threads

    @property
    def whole_plan(self) -> Plan:
        """The plan with its way of working."""
        return replace(self.plan, work=self.work)

    @property
    def operations(self) -> float:
        """Floating-point operations of the models for the whole film."""
        return sum(stage_work(self.work, self.clip.frame_count).values())

    def run(self) -> TimedJob:
        """Run it once."""
        return run_once(self.clip.media, self.whole_plan, self.clip.folder)

    def ready(self) -> Callable[[], Tensor]:
        """The job as a piece of work without a result of its own."""

        def work() -> Tensor:
            self.run()
            return torch.zeros(0)

        return work

    @classmethod
    def read(cls, data: Any) -> StreamJob:
        """A job that was written as plain data."""
        return from_plain(cls, data, {WorkPlan: registry.plan_class})
