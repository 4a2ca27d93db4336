"""Choices that work on this computer, for lists; `notices` refuses the rest in plans.

Decided from the GPU, the system and what is installed (`engine.settings.requirements`); loads
neither torch nor, where there is no GPU, av.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.core.messages import Message, message
from engine.files import catalogue
from engine.hardware import devices
from engine.hardware.budget import gpus_here, titles_of
from engine.hardware.gpu_table import GpuSpec
from engine.models import registry
from engine.protocol.events import DeviceChoice, DevicesListed
from engine.settings.optimisations import choices
from engine.settings.schema import about
from engine.video.write.codecs import encoder_works
from engine.video.write.encoders import ON_GPU

Unavailable = Mapping[str, Mapping[str, Message]]  # setting -> value -> what is missing


def devices_here(pretend: Sequence[GpuSpec] = ()) -> DevicesListed:
    """Devices for jobs on this computer, with the choices that do not work there.

    Args:
        pretend: GPUs in the place of this machine's own.
    """
    gpus = gpus_here(pretend)
    fastest = devices.chosen(devices.AUTO, gpus)
    found = [
        DeviceChoice(
            value=devices.value_of(gpu, gpus),
            title=title,
            unavailable=unavailable("cuda", gpu.capability),
        )
        for gpu, title in zip(gpus, titles_of(gpus, pretend), strict=True)
    ]
    processor = DeviceChoice(value="cpu", title="", unavailable=unavailable("cpu", None))
    automatic = processor if fastest is None else found[gpus.index(fastest)]
    return DevicesListed(
        devices=(*found, processor), automatic=automatic, unpublished=unpublished()
    )


def unavailable(device: str, capability: tuple[int, int] | None) -> Unavailable:
    """Values of settings that cannot be chosen on a kind of device, a GPU of this capability."""
    found: dict[str, dict[str, Message]] = {}
    for entry in choices():
        missing = {value: entry.missing(value, device, capability) for value in entry.values}
        if entry.setting:
            found[entry.setting] = {value: why for value, why in missing.items() if why}
    if not _has_gpu_encoder():
        found["encoder"] = {"nvenc": message("reason.choice.encoder")}
    return {name: values for name, values in found.items() if values}


def unpublished() -> dict[str, tuple[str, ...]]:
    """Model -> values of the setting `precision` in which it was not published."""
    found = {}
    for model in (model for family in registry.families() for model in family.models):
        known = catalogue.precisions_of(model)
        others = tuple(v for v in about("precision").choices if v not in ("auto", *known))
        if known and others:
            found[model] = others
    return found


def _has_gpu_encoder() -> bool:
    return bool(devices.gpus()) and any(encoder_works(encoder.name) for encoder in ON_GPU.values())
