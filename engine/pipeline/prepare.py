"""From a source and settings to a plan for this machine and this moment; loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import windows_paths
from engine.core.errors import (
    EngineError,
    OutputError,
    PlanDoesNotFit,
    PretendedGpu,
    TruncatedMedia,
    WeightsMissing,
)
from engine.hardware.budget import measure_budget
from engine.hardware.gpu_table import GpuSpec
from engine.pipeline.output import check_output
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import load_rates
from engine.planner.target import default_output
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import EngineSettings, JobSettings

_REFUSALS = {kind.code: kind for kind in (PretendedGpu, TruncatedMedia, WeightsMissing)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where jobs run: settings of the program, the folder of job folders, a card to pretend."""

    settings: EngineSettings
    jobs_folder: Path
    pretend: GpuSpec | None = None  # plans are made for it, and cannot start


def make_plan(
    media: MediaInfo, settings: JobSettings, output: Path | None, machine: Machine
) -> Plan:
    """Plan a job; a result that cannot be written is a refusal in the plan, not an error.

    Args:
        media: The source.
        settings: What is wanted.
        output: File of the result, a folder to put it into, or None for beside the source.
        machine: Where it will run.

    Raises:
        EngineError: As memory.planner.plan_job.
    """
    output = windows_paths.openable(output) if output is not None else None
    named = None if output is None or output.is_dir() else output
    request = Request(media=media, settings=settings, output=named)
    budget = measure_budget(
        machine.settings, output or media.path, machine.jobs_folder, machine.pretend
    )
    plan = plan_job(request, budget, load_rates())
    if named is None and output is not None:
        name = default_output(media, settings, plan.container).name
        plan = replace(plan, output=windows_paths.openable(output / name))
    try:
        check_output(media, plan.output, overwrite=settings.overwrite)
    except OutputError as err:
        plan = _refused(plan, err)
    return _refused(plan, _pretended(plan)) if plan.is_pretended else plan


def _refused(plan: Plan, error: EngineError) -> Plan:
    info = error.info()
    refusal = Notice(
        code=info.code,
        severity="refusal",
        message=info.message,
        hint=info.hint,
        params={name: str(value) for name, value in info.params.items()},
    )
    return replace(plan, notices=(refusal, *plan.notices))


def _pretended(plan: Plan) -> PretendedGpu:
    return PretendedGpu(
        f"This is planned for a card that is not in this machine: {plan.card}.",
        hint="Start Upreel without a pretended card to do it here.",
        card=plan.card,
    )


def check_plan(media: MediaInfo, plan: Plan, *, overwrite: bool) -> None:
    """Last look before the start.

    Raises:
        OutputError: The result cannot be written.
        PretendedGpu: It was planned for a card that is not here.
        TruncatedMedia: The end of the source is missing and that was not allowed.
        WeightsMissing: A file of the model is not on this machine.
        PlanDoesNotFit: Another notice refuses to start.
    """
    check_output(media, plan.output, overwrite=overwrite)
    for notice in plan.notices:
        if notice.severity == "refusal":
            kind = _REFUSALS.get(notice.code, PlanDoesNotFit)
            raise kind(notice.message, hint=notice.hint, **notice.params)
