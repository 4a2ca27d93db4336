"""The dtype of a VAE whose user wants the fastest one."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware.budget import Budget
from engine.settings.schema import JobSettings

FASTEST = "fastest"


def settled(settings: JobSettings, device: str, budget: Budget) -> JobSettings:
    """Settings with a dtype in place of "fastest"; a job keeps it in its plan.

    On a GPU it is the usual one. On a CPU that multiplies bfloat16 a trial decides, which takes
    less than half a second the first time, and loads torch; on another computer float32.

    Args:
        settings: Settings of a job.
        device: Device that the installed torch can use for it, "cpu" or "cuda".
        budget: Budget of the computer.
    """
    if settings.vae_precision != FASTEST:
        return settings
    awaits_runtime = budget.needed_runtime is not None and settings.device != "cpu"
    if device == "cuda" or awaits_runtime:
        return replace(settings, vae_precision="auto")
    dtype = "float32"
    if budget.has_fast_bf16 and not budget.is_pretended:
        from engine.ops.conv.cpu_dtype import fastest_dtype

        dtype = fastest_dtype().dtype
    return replace(settings, vae_precision=dtype)
