"""The families of models there are, by name; a family is loaded when it is asked for. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.core.errors import SettingsError, UnknownWeights
from engine.hardware.budget import Budget
from engine.models.contracts import AnyFamily
from engine.models.latents import LatentFormat
from engine.protocol.plan import PassName, Plan, WorkPlan
from engine.settings import schema
from engine.settings.schema import JobSettings

# Each is a folder with a module `family`. The first that "auto" may stand for is preferred.
NAMES = ("seedvr2", "swiftvr", "wan", "community", "copy", "lite")

_registered: dict[str, AnyFamily] = {}


def family(name: str) -> AnyFamily:
    """A family by its name.

    Raises:
        KeyError: There is none.
    """
    return _registered[name] if name in _registered else _loaded(name)


@cache
def _loaded(name: str) -> AnyFamily:
    if name not in NAMES:
        raise KeyError(name)
    found: AnyFamily = importlib.import_module(f"engine.models.{name}.family").FAMILY
    return found


def families() -> tuple[AnyFamily, ...]:
    """All of them."""
    return tuple(family(name) for name in (*_registered, *NAMES))


def built_in() -> tuple[str, ...]:
    """Models that come with the program and make results larger than their source.

    The first one of each family, which is for any machine and any length of a video.
    """
    return tuple(next(iter(one.models)) for one in families() if one.is_built_in)


def family_of(work: WorkPlan) -> AnyFamily:
    """The family of a plan."""
    return family(work.family)


def family_for(settings: JobSettings) -> tuple[AnyFamily, str]:
    """The family and the id of the model that settings name.

    Raises:
        SettingsError: No family has it.
        WeightsError: A file of the user's own, which names the model, cannot be used.
    """
    for one in families():
        model = one.model_of(settings)
        if model:
            return one, model
    raise SettingsError("unknown-model", model=settings.model, setting="model")


@dataclass(frozen=True, slots=True)
class Meaning:
    """Settings that name a model; `is_brief`: "auto" takes it for jobs that do not take long."""

    settings: JobSettings
    is_brief: bool = False


def meanings(settings: JobSettings, budget: Budget) -> Iterator[Meaning]:
    """The settings with each model that "auto" may stand for on a machine, the best first.

    Raises:
        WeightsError: A file of the user's own, which names the model, cannot be used.
    """
    if settings.model != "auto" or any(one.model_of(settings) for one in families()):
        yield Meaning(settings)
        return
    for one in families():
        models = one.automatic(settings, budget)
        for model in models:
            yield Meaning(replace(settings, model=model), is_brief=model != models[-1])


def title_of(model: str) -> str:
    """Title of a model; its id where no family has it."""
    return next((one.models[model] for one in families() if model in one.models), model)


def plan_class(data: Mapping[str, Any]) -> type[WorkPlan]:
    """Class of a plan that was written as JSON, by its tag.

    Raises:
        KeyError: This version does not have such a family.
    """
    return family(data["family"]).plan


def latent_formats() -> tuple[LatentFormat, ...]:
    """Every kind of files of latents."""
    return tuple(one.latents for one in families() if one.latents is not None)


def latent_format(path: Path) -> LatentFormat | None:
    """The format of a file of latents, by its name; None for any other file."""
    suffix = path.suffix.lower()
    return next((one for one in latent_formats() if one.suffix == suffix), None)


def latent_format_of(model: str) -> LatentFormat:
    """The format of the files of a VAE.

    Raises:
        UnknownWeights: No format has it.
    """
    found = latent_family(model).latents
    assert found is not None
    return found


def latent_family(model: str) -> AnyFamily:
    """The family of a VAE whose latents are kept in files.

    Raises:
        UnknownWeights: No family has it.
    """
    for one in families():
        if one.latents is not None and model in one.latents.titles:
            return one
    known = tuple(name for one in latent_formats() for name in one.titles)
    raise UnknownWeights("latents-vae", file=model, known=known)


def decoding(plan: Plan) -> WorkPlan | None:
    """The pass that makes frames of a source of latents, before all others; None without one.

    A plan keeps only what may differ of it.
    """
    latent = plan.latent
    if latent is None:
        return None
    return latent_format_of(latent.model).decoding(latent, plan.source_size, plan.work)


def pass_of(plan: Plan, name: PassName) -> WorkPlan:
    """A pass of a plan that has it."""
    found: WorkPlan | None = decoding(plan) if name == "latent" else getattr(plan, name)
    assert found is not None
    return found


def with_pass(plan: Plan, name: PassName, work: WorkPlan) -> Plan:
    """The plan with another plan of one of its passes."""
    changed: dict[str, Any] = {name: work}
    if name == "latent":
        assert plan.latent is not None
        formats = latent_format_of(plan.latent.model)
        changed = {name: formats.planned(plan.latent, work)}
    return replace(plan, **changed)


@contextmanager
def registered(added: AnyFamily) -> Iterator[None]:
    """Inside, there is a further family, whose models can be chosen: for tests."""
    _registered[added.name] = added
    new = [model for model in added.models if model not in schema.MODELS]
    schema.MODELS.extend(new)
    try:
        yield
    finally:
        del _registered[added.name]
        for model in new:
            schema.MODELS.remove(model)
