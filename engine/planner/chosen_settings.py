"""Settings of a job as users name them, on the command line and in Python; loads no torch.

A preset comes first, then settings by name, last texts like those of `--set`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.core.units import parse_clock
from engine.files.model_files import Store
from engine.files.model_files import named as named_file
from engine.hardware.budget import gpus_here
from engine.hardware.devices import fastest, from_environment, named_each
from engine.hardware.devices import named as named_gpu
from engine.hardware.gpu_table import GpuSpec
from engine.planner import preset_choice
from engine.settings.assignments import with_named, with_text
from engine.settings.schema import MODELS, JobSettings

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
        SettingsError: A name, a value, a preset or a GPU does not exist; it names similar ones.
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
    if settings.excluded_gpus != usual.excluded_gpus:
        excluded = named_each(settings.excluded, gpus_here(pretend))
        settings = dataclasses.replace(settings, excluded_gpus=excluded)
    if settings.device != usual.device:
        device = named_gpu(settings.device, gpus_here(pretend))
        settings = dataclasses.replace(settings, device=device)
    return settings


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
