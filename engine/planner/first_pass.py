"""The first pass: a model that keeps the size cleans each frame before the job's model sees it.

It removes noise or blocks, say. Its plan is that of any model that redraws frames one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.errors import WrongModel
from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.contracts import WorkRequest
from engine.protocol.media import VideoInfo
from engine.protocol.plan import Notice, Plan, WorkPlan
from engine.settings.schema import JobSettings

_MODEL = "community"  # whose file the setting `first_model` names


def added(plan: Plan, video: VideoInfo, settings: JobSettings, budget: Budget) -> Plan:
    """A plan with the largest first pass of the model that is to clean its frames.

    Args:
        plan: Plan of the job, with the model that follows.
        video: Input of that model: the source, or a part of it.
        settings: Settings of the job; `first_model` is a file.
        budget: Budget of the computer.

    Raises:
        WeightsMissing: The file is not there.
        WrongModel: The model enlarges.
        WeightsError: The file is none of a model of frames.
    """
    file = settings.first_model
    settings = replace(settings, model=_MODEL, model_file=file, steadiness="off")  # that of results
    family, model = registry.family_for(settings)
    found: WorkPlan = family.choose(
        WorkRequest(
            model=model,
            video=video,
            picture=plan.picture,
            settings=settings,
            budget=budget,
            device=plan.work.device,
        )
    )
    if found.scale != 1:
        name = found.weights_files[0].name
        raise WrongModel("enlarges-first", name=name, path=file, scale=found.scale)
    at_a_time = min(found.clip_frames, plan.work.clip_frames)
    return replace(plan, first_pass=replace(found, clip_frames=at_a_time))


def smallest(first: WorkPlan) -> WorkPlan:
    """The plan of the same model that takes least."""
    family = registry.family_of(first)
    while (smaller := family.smaller(first)) is not None:
        first = smaller
    return first


def choices(plan: Plan) -> Iterator[Notice]:
    """Decisions for the first pass, a sentence each; none without one."""
    first = plan.first_pass
    if first is not None:
        for one in registry.family_of(first).choices(first):
            params = {"choice": one.as_message}
            yield Notice(code="first-pass", severity="info", params=params)
