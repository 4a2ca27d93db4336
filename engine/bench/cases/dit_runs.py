"""What the options of the benchmark ask of a SeedVR2 transformer."""

from __future__ import annotations

from dataclasses import replace

from engine.bench.cases.vae_runs import device_of
from engine.bench.options import BenchOptions, request_of
from engine.models.seedvr2.dit.random_dit import DitRun, Kind, usual_run


def base_run(options: BenchOptions, kind: Kind) -> DitRun:
    """The plain variant, five frames, and what suits the device where nothing is asked for."""
    run = usual_run(request_of(options, device_of(options)), kind)
    return run if options.dit is None else replace(run, config=options.dit)
