"""Whether another computer can help with a job: its version, model files, device and memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine import __version__
from engine.core.errors import EngineError
from engine.core.messages import Message, message
from engine.core.paths import models_folder
from engine.core.units import memory_text
from engine.farm.endpoint import Endpoint
from engine.farm.identity import clean_name
from engine.files import model_files as store
from engine.files.model_files import Store
from engine.hardware import devices
from engine.hardware.budget import title_of
from engine.pipeline.model_file_check import files_of
from engine.planner import peaks
from engine.protocol.plan import Plan, WeightsPlan
from engine.workers.reports import check, read

CPU = "cpu"
_LONGEST_TITLE = 200  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class LentDevice:
    """A GPU or the CPU of a lending computer."""

    gpu: str  # value of the setting `device`; "" for the CPU
    title: str  # for users
    free_bytes: int  # free memory of the device


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """A device that is lent, as its process gets it."""

    hosts: tuple[str, ...]  # "host:port" of computers that may have work
    endpoint: Endpoint
    device: LentDevice
    folder: Path  # for temporary files


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededFile:
    """A model file of the plan."""

    name: str
    published: str  # "" for one of the user's own
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requirements of a plan for a lending computer."""

    version: str
    device: str  # "cpu" or "cuda"
    bytes: int  # memory of that device
    files: tuple[NeededFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOffer:
    """Answer of a lending computer to `Requirements`."""

    version: str
    device: LentDevice
    files: tuple[str, ...]  # SHA-256 of each; "" for a missing one


def read_offer(data: Any) -> MachineOffer:
    """The offer of a computer, as it may be shown.

    Raises:
        InvalidReport: It makes no sense.
    """
    offer = read(MachineOffer, data)
    device = offer.device
    is_short = max(len(device.gpu), len(device.title)) <= _LONGEST_TITLE
    check(is_short and device.title.isprintable(), "a device without a name")
    check(0 <= device.free_bytes < 2**60, "an implausible amount of memory")
    return dataclasses.replace(offer, version=clean_name(offer.version))


def requirements_of(plan: Plan) -> Requirements:
    """Requirements of a plan; reads model files that were not read yet.

    Raises:
        WeightsUnreadable: A file cannot be read.
    """
    is_gpu = plan.work.device != CPU
    known = Store()
    return Requirements(
        version=__version__,
        device=plan.work.device,
        bytes=peaks.job_peak(plan).device if is_gpu else peaks.worker_bytes(plan),
        files=tuple(
            NeededFile(
                name=file.path.name, published=file.published, sha256=known.sha256_of(file.path)
            )
            for file in _files(plan)
        ),
    )


def own_devices() -> tuple[LentDevice, ...]:
    """GPUs of this computer, then its CPU, with the memory that is free now."""
    found = devices.gpus()
    gpus = [
        LentDevice(gpu=devices.value_of(gpu, found), title=title_of(gpu), free_bytes=gpu.free_bytes)
        for gpu in found
    ]
    free = psutil.virtual_memory().available
    return (*gpus, LentDevice(gpu="", title=devices.cpu_name(), free_bytes=free))


def now(device: LentDevice) -> LentDevice:
    """A device with the memory that is free now; none of one that has gone."""
    gone = dataclasses.replace(device, free_bytes=0)
    return next((one for one in own_devices() if one.gpu == device.gpu), gone)


def own_files(needs: Requirements) -> tuple[Path | None, ...]:
    """Path of each file on this computer; None if none has that name."""
    return tuple(_own_file(file) for file in needs.files)


def offer_of(device: LentDevice, files: tuple[Path | None, ...]) -> MachineOffer:
    """Offer of this computer; reads model files that were not read yet.

    Raises:
        WeightsUnreadable: A file cannot be read.
    """
    known = Store()
    return MachineOffer(
        version=__version__,
        device=device,
        files=tuple("" if path is None else known.sha256_of(path) for path in files),
    )


def misfit(needs: Requirements, offer: MachineOffer) -> Message | None:
    """Why a computer cannot take part; None if it can."""
    if offer.version != needs.version:
        return message("reason.machine.version", version=offer.version, own=needs.version)
    if (needs.device == CPU) != (offer.device.gpu == ""):
        return message("reason.machine.device")
    for file, found in zip(needs.files, offer.files, strict=True):
        if not found:
            return message("reason.machine.no-weights", file=file.name)
        if found != file.sha256:
            return message("reason.machine.weights", file=file.name)
    if offer.device.free_bytes < needs.bytes:
        sizes = {"size": memory_text(needs.bytes), "free": memory_text(offer.device.free_bytes)}
        return message("reason.machine.memory", device=offer.device.title, **sizes)
    return None


def moved(plan: Plan, files: tuple[Path, ...], gpu: str) -> Plan:
    """A plan as it is carried out on this computer, with its model files and its GPU."""
    there = dict(zip(_files(plan), files, strict=True))
    found: Plan = _replaced(plan, {old: _at(old, path) for old, path in there.items()})
    return dataclasses.replace(found, gpu=gpu, workers=())


def _files(plan: Plan) -> tuple[WeightsPlan, ...]:
    """Model files for spans; latents are a video file by then."""
    without = dataclasses.replace(plan, latent=None)
    return tuple(dict.fromkeys(files_of(without)))


def _own_file(file: NeededFile) -> Path | None:
    try:
        found = Store().ready(file.published) if file.published else models_folder() / file.name
    except EngineError:  # not here, or another one: its name says it all
        return None
    return found if found.is_file() else None


def _at(old: WeightsPlan, path: Path) -> WeightsPlan:
    return dataclasses.replace(store.named(path), published=old.published)


def _replaced(value: Any, files: Mapping[WeightsPlan, WeightsPlan]) -> Any:
    """Replace weights files, wherever a family of models keeps them in its data."""
    if isinstance(value, WeightsPlan):
        return files.get(value, value)
    if isinstance(value, tuple):
        return tuple(_replaced(item, files) for item in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    names = [one.name for one in dataclasses.fields(value) if one.init]
    found = {name: _replaced(getattr(value, name), files) for name in names}
    changed = {name: new for name, new in found.items() if new is not getattr(value, name)}
    return dataclasses.replace(value, **changed) if changed else value
