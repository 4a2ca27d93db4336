"""Settings of a job as users name them, on the command line and in Python; loads no torch.

A preset comes first, then settings by name, last texts like those of `--set`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engine.core.errors import SettingsError
from engine.core.units import parse_clock
from engine.files.model_files import Store
from engine.files.model_files import named as named_file
from engine.hardware.budget import gpus_here
from engine.hardware.devices import fastest, from_environment, named_each
from engine.hardware.devices import named as named_gpu
from engine.hardware.gpu_table import GpuSpec
from engine.models import registry
from engine.planner import preset_choice
from engine.settings.assignments import with_named, with_text
from engine.settings.schema import MODELS, JobSettings, current_names, describe

_MODEL_FILES = {".pth", ".pt", ".ckpt", ".safetensors"}
_SIZE = ("scale", "height", "width")  # settings of the size of the result


def chosen_settings(
    named: Mapping[str, object],
    texts: Sequence[str] = (),
    *,
    preset: str | None = None,
    pretend: Sequence[GpuSpec] = (),
) -> JobSettings:
    """Settings of a job, with everything that they name found on this computer.

    A size replaces that of a preset as a whole, and without a model and a size nothing is enlarged.

    Args:
        named: Values by the name of their setting; None where it was not given. `model` may also
            be the path of a community model, or the id of one that was imported.
        texts: Texts "name=value", which have the last word.
        preset: Name or title of a preset; None without one.
        pretend: GPUs in the place of this computer's own.

    Raises:
        SettingsError: A name, a value, a preset or a GPU does not exist; it names similar ones. Or
            a value has no effect with the model that is named next to it.
        WeightsMissing: The file of a model does not exist.
    """
    pretend = pretend or from_environment()
    given = {name: value for name, value in named.items() if value is not None}
    for name in ("start", "stop"):
        if given.get(name, "") != "":
            parse_clock(str(given[name]))
    if "model" in given:
        given |= named_model(str(given["model"]))
    usual = JobSettings()
    if not given.keys().isdisjoint(_SIZE):
        given = {name: getattr(usual, name) for name in _SIZE} | given
    elif given.get("model") == "none":
        given["scale"] = 1
    if preset is not None:
        usual = preset_choice.chosen(preset, usual, fastest(pretend))
    settings = with_text(with_named(usual, given), list(texts))
    names = {text.partition("=")[0].strip() for text in texts}
    _refuse_unused(settings, usual, (*given, *names))
    asks_scale = named.get("scale") is not None or "scale" in names
    has_size = settings.height > 0 or settings.target is not None
    if settings.model == "none" and asks_scale and settings.scale > 1 and not has_size:
        raise SettingsError("scale-without-model")
    if settings.excluded_gpus != usual.excluded_gpus:
        excluded = named_each(settings.excluded, gpus_here(pretend))
        settings = dataclasses.replace(settings, excluded_gpus=excluded)
    if settings.device != usual.device:
        device = named_gpu(settings.device, gpus_here(pretend))
        settings = dataclasses.replace(settings, device=device)
    return settings


def _refuse_unused(settings: JobSettings, usual: JobSettings, names: Iterable[str]) -> None:
    """Refuse what was set for this job and has no effect with the model that was set with it.

    Saved settings and presets may hold it: with them, and with the automatic model, which differs
    between computers, it is a notice of the plan. What latents look at depends on the source.
    """
    if settings.model in ("auto", usual.model):
        return
    of_job, _ = registry.family_for(settings)
    used = {of_job.name, *(["community"] if settings.first_model else [])}
    used |= {"latents", *(one.name for one in registry.families() if one.latents is not None)}
    for name in map(current_names(JobSettings).get, (name.strip() for name in names)):
        families = describe(JobSettings)[name].families if name else ()
        is_changed = bool(name) and getattr(settings, str(name)) != getattr(usual, str(name))
        if is_changed and families and used.isdisjoint(families):
            models = [model for one in families for model in registry.family(one).models]
            title = registry.title_of(settings.model)
            raise SettingsError(
                "setting-unused", setting=str(name), model=title, models=", ".join(models)
            )


def named_model(text: str) -> dict[str, str]:
    """Settings of a model by its id, by the id of an imported file, or by the path of a file.

    Raises:
        WeightsMissing: There is no such file.
    """
    if text in MODELS:
        return {"model": text}
    if text.startswith("own-"):
        return {"model": "community", "model_file": str(Store().path_of(text))}
    if Path(text).is_file() or Path(text).suffix.lower() in _MODEL_FILES:
        return {"model": "community", "model_file": str(named_file(Path(text)).path)}
    return {"model": text}
