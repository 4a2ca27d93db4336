"""Speed of this computer, learned from finished jobs."""

from __future__ import annotations

from engine.hardware import devices, gpu_table
from engine.hardware.budget import Budget
from engine.planner import rates
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
    budget, known = budget_of(plan), rates.load_rates()
    return rates.learn(
        kind(plan),
        predicted=work_seconds(plan, budget, known),
        measured=seconds,
        fixed=fixed_seconds(plan, known),
        gpu=gpu_title(plan.work, budget),
        memory=memory,
    )


def budget_of(plan: Plan) -> Budget:
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
