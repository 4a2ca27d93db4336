"""Speeds learned from a job, of this computer and of others that helped."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware import devices, gpu_table
from engine.hardware.budget import Budget
from engine.planner import rates, workers
from engine.planner.machine_times import machine_title, nominal_seconds, own_rates
from engine.planner.rates import Learned
from engine.planner.times import fixed_seconds, gpu_title, kind, work_seconds
from engine.protocol.plan import Plan


def learn(plan: Plan, seconds: float, memory: float | None = None) -> Learned | None:
    """Correct the rates of this machine by a job that has finished; returns as `rates.learn`.

    Args:
        plan: Plan at the end of the job, with the frames that it had.
        seconds: It took, pauses left out.
        memory: Its most bytes on the GPU over the planned ones; None: not measured.
    """
    budget, known = _budget(plan), rates.load_rates()
    return rates.learn(
        kind(plan),
        predicted=work_seconds(plan, budget, known),
        measured=seconds,
        fixed=fixed_seconds(plan, known),
        gpu=gpu_title(plan.work, budget),
        memory=memory,
    )


def learn_part(plan: Plan, frames: float, seconds: float, fingerprint: str = "") -> Learned | None:
    """Correct the speed of a computer by its part of a film; returns as `rates.learn`.

    Next to as long as a job takes to start, a short time counts little.

    Args:
        plan: Plan of the job.
        frames: Frames that all its devices have made.
        seconds: They took, without loading and waiting.
        fingerprint: Fingerprint of its certificate; "" for this computer, which has one process.
    """
    known = rates.load_rates()
    if fingerprint:
        film, title = nominal_seconds(plan), machine_title(fingerprint)
    else:
        budget = _budget(plan)
        (rate,) = own_rates(plan, budget, replace(known, jobs={}))
        film, title = plan.frames / rate, gpu_title(plan.work, budget)
    share, fixed = frames / plan.frames * (1 + workers.made_twice(plan)), fixed_seconds(plan, known)
    return rates.learn(
        kind(plan), predicted=share * film, measured=fixed + seconds, fixed=fixed, gpu=title
    )


def _budget(plan: Plan) -> Budget:
    """Budget that a plan used of this computer."""
    gpu = next((gpu for gpu in gpu_table.gpu_specs() if gpu.title == plan.card), None)
    is_other = plan.work.device == "cuda" and gpu is None
    own = devices.chosen(plan.gpu, devices.gpus()) if is_other else None
    return Budget(
        ram_bytes=plan.budget_bytes,
        threads=plan.work.threads,
        gpu=gpu,
        capability=None if own is None else own.capability,
    )
