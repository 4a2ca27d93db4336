"""What a finished job teaches about the speed of this machine, and of others that helped."""

from __future__ import annotations

from engine.hardware import devices, gpu_table
from engine.hardware.budget import Budget
from engine.planner import rates, workers
from engine.planner.rates import Learned
from engine.planner.times import (
    fixed_seconds,
    gpu_title,
    kind,
    machine_title,
    nominal_seconds,
    work_seconds,
)
from engine.protocol.plan import Plan


def learn(plan: Plan, seconds: float, memory: float | None = None) -> Learned | None:
    """Correct the rates of this machine by a job that has finished; returns as `rates.learn`.

    Args:
        plan: As the job ended, with the frames that it had.
        seconds: It took, pauses left out.
        memory: Its most bytes on the GPU over the planned ones; None: not measured.
    """
    gpu = next((gpu for gpu in gpu_table.gpu_specs() if gpu.title == plan.card), None)
    is_other = plan.work.device == "cuda" and gpu is None
    own = devices.chosen(plan.gpu, devices.gpus()) if is_other else None
    capability = None if own is None else own.capability
    budget = Budget(
        ram_bytes=plan.budget_bytes, threads=plan.work.threads, gpu=gpu, capability=capability
    )
    known = rates.load_rates()
    return rates.learn(
        kind(plan),
        predicted=work_seconds(plan, budget, known),
        measured=seconds,
        fixed=fixed_seconds(plan, known),
        gpu=gpu_title(plan.work, budget),
        memory=memory,
    )


def learn_machine(plan: Plan, fingerprint: str, frames: float, seconds: float) -> Learned | None:
    """Correct the speed of another computer by what it has made; returns as `rates.learn`.

    Next to so long as a job takes to start, a short time counts little.

    Args:
        plan: Of the job.
        fingerprint: Of its certificate.
        frames: That all its devices have made.
        seconds: They took, without loading and waiting.
    """
    fixed = fixed_seconds(plan, rates.load_rates())
    share = frames / plan.frames * (1 + workers.made_twice(plan))
    return rates.learn(
        kind(plan),
        predicted=share * nominal_seconds(plan),
        measured=fixed + seconds,
        fixed=fixed,
        gpu=machine_title(fingerprint),
    )
