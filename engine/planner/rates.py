"""Speeds of this computer: measured costs of its work, corrected by every finished job."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from engine.core import atomic_file, paths
from engine.core.serialization import from_plain, read_json, set_aside
from engine.hardware import devices

# 4: factors of jobs are those of seconds that are predicted otherwise than those of 3.
_VERSION = 4  # of the file; another one is not used, and replaced by the next job
_LEAST, _MOST = 0.05, 20.0  # that a factor can be
_FIRST_ERROR = 0.1  # how far one job alone may be off, as a share
_KEPT = 20  # jobs of a kind whose memory is known
_LATEST = 5  # of them decide
_SCALE = re.compile(r"-x\d+(?=-)")  # in the name of a kind
_HALF = 0.5  # of the way that a factor goes with each further job

# CPU seconds on one core of a server CPU of 2023, of a million pixels or, for the work of
# VAEs and transformers, of 10^12 floating-point operations. The speed test measures them.
COSTS: dict[str, float] = {
    "start": 0.05,  # of a job: threads, files, the first call of everything
    "frame": 0.003,  # of a frame of any size
    "check": 0.0013,  # of verifying a frame of any size
    "read": 0.015,  # decode and YUV to RGB, per source Mpx
    "resize": 0.02,  # to a size that is larger than the model makes, per output Mpx
    "reduce": 0.045,  # to one that is smaller, per Mpx that the model makes
    "restore": 0.012,  # RGB to YUV, per output Mpx
    "steady": 0.02,  # frames blended with their neighbours, per Mpx of the model's pictures
    "verify": 0.009,  # an H.264 result, per output Mpx
    "lite-2-float32": 1.2,  # per source Mpx
    "lite-4-float32": 2.3,
    "lite-2-bfloat16": 0.7,  # where the CPU multiplies bfloat16
    "lite-4-bfloat16": 1.3,
    "lite-plus-float32": 1e12 / 7e10,
    "lite-plus-bfloat16": 1e12 / 1.2e11,
    "libx264": 0.036,  # encoders: per output Mpx
    "libx265": 0.105,
    "libsvtav1": 0.05,
    "libvpx-vp9": 0.1,
    "prores_ks": 0.1,
    "ffv1": 0.02,
    "png": 0.38,
    "tiff": 0.05,
    "exr": 0.4,
    "dpx": 0.01,
    "encoder": 0.03,  # NVENC
    "open-libx265": 0.25,  # the beginning of a segment
    "open-libsvtav1": 0.1,
    "open-encoder": 0.01,
    "decode-libx264": 0.008,  # of the result, which verifying does
    "decode-libx265": 0.008,
    "decode-libsvtav1": 0.006,
    "decode-libvpx-vp9": 0.008,
    "decode-prores_ks": 0.017,
    "decode-ffv1": 0.035,
    "decode-png": 0.03,
    "decode-tiff": 0.02,
    "decode-exr": 0.05,
    "decode-dpx": 0.01,
    "decode-encoder": 0.008,
    "vae-float32": 1e12 / 8e10,
    "vae-bfloat16": 1e12 / 1.4e11,
    "vae-float16": 1e12 / 6e9,
    "transformer-float32": 1e12 / 4e10,
    "transformer-bfloat16": 1e12 / 6e10,
    "transformer-float16": 1e12 / 6e9,
}


@dataclass(frozen=True, slots=True)
class Spread:
    """Range of a time: factors of the predicted one.

    Attributes:
        low: At most 1.
        high: At least 1.
    """

    low: float
    high: float

    @classmethod
    def of_error(cls, error: float) -> Spread:
        """Error as a share, to either side."""
        return cls(1 / (1 + error), 1 + error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Corrections learned from finished jobs of a kind.

    Attributes:
        factor: Measured over predicted time, an average of the latest jobs.
        error: Average error of the latest predictions, as a share.
        jobs: Number of finished jobs.
        memory: Most bytes of a GPU over the planned ones, of the latest jobs, newest last.
    """

    factor: float
    error: float = _FIRST_ERROR
    jobs: int = 1
    memory: tuple[float, ...] = ()

    @property
    def memory_factor(self) -> float:
        """Bytes to plan with for a planned one; plans are upper limits: 1 or more."""
        return max((1.0, *self.memory[-_LATEST:]))


@dataclass(frozen=True, slots=True)
class Rates:
    """Knowledge of this computer's speed.

    Attributes:
        jobs: By kind of job and the GPU it ran on.
        costs: Costs measured on the CPU; names and units as in COSTS.
        gpus: Device seconds on GPUs, by title; names as in COSTS.
    """

    jobs: Mapping[str, Learned] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    gpus: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def cost(self, name: str) -> float:
        """CPU seconds of a unit of work, measured here or as elsewhere."""
        found = self.costs.get(name, COSTS.get(name))
        if found is not None:
            return found
        what, _, rest = name.partition("-")  # of an encoder without a measured cost
        known = f"{what}-encoder" if rest and what in ("open", "decode") else "encoder"
        return COSTS[known]

    def gpu_cost(self, gpu: str, name: str) -> float | None:
        """Device seconds of a unit of work; None where it was not measured on that GPU."""
        return self.gpus.get(gpu, {}).get(name)

    def learned(self, kind: str, gpu: str = "") -> Learned | None:
        """Corrections of this kind of job, else of the nearest kind, scaled by the work.

        Nearest are those that differ in the encoder alone, then those of the same model at another
        scale: a guess next to a measurement of the same video would contradict it.
        """
        own = self.jobs.get(_key(kind, gpu))
        if own is not None:
            return own
        for alike_by, further in _NEAREST:
            wanted = alike_by(_key(kind, gpu))
            alike = [one for key, one in self.jobs.items() if alike_by(key) == wanted]
            if alike:
                return _middle(alike, further)
        return None

    def factor(self, kind: str, gpu: str = "") -> float:
        """Measured over predicted time of this kind; 1 where nothing was learned yet."""
        found = self.learned(kind, gpu)
        return 1.0 if found is None else found.factor


def load_rates() -> Rates:
    """Rates measured on this computer; none when the file is missing, damaged or another's."""
    with set_aside(_file()):
        data = read_json(_file())
        if data["version"] != _VERSION or data["machine"] != machine():
            return Rates()
        return Rates(
            jobs=_each(data["jobs"], _learned),
            costs=_each(data["costs"], _cost),
            gpus=_each(data["cards"], lambda costs: _each(costs, _cost)),
        )
    return Rates()


def keep(rates: Rates) -> None:
    """Write it down for the next plans; a folder that cannot be written to is left as it is."""
    data = {
        "version": _VERSION,
        "machine": machine(),
        "costs": dict(rates.costs),
        "cards": {gpu: dict(costs) for gpu, costs in rates.gpus.items()},
        "jobs": {key: asdict(one) for key, one in rates.jobs.items()},
    }
    with suppress(OSError):  # the next job is predicted as before
        _file().parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write_json(_file(), data, indent=1)


def learn(
    kind: str,
    *,
    predicted: float,
    measured: float,
    fixed: float = 0,
    gpu: str = "",
    memory: float | None = None,
) -> Learned | None:
    """Correct a kind of job by one that has finished.

    The first one counts in full, later ones move the factor half of the way; both less where a
    job was too short to show much.

    Args:
        kind: Kind of the job.
        predicted: Seconds that its work takes without any correction.
        measured: Seconds it took in all, pauses left out.
        fixed: Part of them that a job takes in addition to its work.
        gpu: Title of the GPU that it ran on; "" for none.
        memory: Its most bytes on the GPU over the planned ones; None: not measured.

    Returns:
        Corrections of this kind now; None where this job shows nothing.
    """
    work = measured - fixed
    if predicted <= 0 or work <= 0:
        return None
    rates, key = load_rates(), _key(kind, gpu)
    old, wanted = rates.jobs.get(key), min(_MOST, max(_LEAST, work / predicted))
    before = rates.factor(kind, gpu)
    step = work / measured * (1 if old is None else _HALF)
    factor = before * (wanted / before) ** step
    off = abs(math.log(wanted / factor)) if old is None else abs(math.log(wanted / before))
    now = Learned(
        factor=round(factor, 4),
        error=round(_FIRST_ERROR + off if old is None else (old.error + off) / 2, 4),
        jobs=1 if old is None else old.jobs + 1,
        memory=(() if old is None else old.memory)[1 - _KEPT :] + _known(memory),
    )
    keep(replace(rates, jobs={**rates.jobs, key: now}))
    return now


def machine() -> str:
    """Shows whether measured costs are those of this machine."""
    return f"{devices.cpu_name()}, {os.cpu_count() or 1} threads"


T = TypeVar("T")


def _each(values: Any, read: Callable[[Any], T]) -> dict[str, T]:
    return {str(name): read(value) for name, value in values.items()}


def _cost(value: Any) -> float:
    found = from_plain(float, value)
    if found <= 0:
        raise ValueError("a cost is a positive number of seconds")
    return found


def _learned(value: Any) -> Learned:
    factor = min(_MOST, max(_LEAST, _cost(value["factor"])))
    return Learned(
        factor=factor,
        error=abs(from_plain(float, value["error"])),
        jobs=from_plain(int, value["jobs"]),
        memory=tuple(min(_MOST, _cost(ratio)) for ratio in value.get("memory", ())),
    )


def _known(memory: float | None) -> tuple[float, ...]:
    return () if memory is None else (round(memory, 4),)


def _key(kind: str, gpu: str) -> str:
    return f"{kind} on {gpu}" if gpu else kind


def _without_encoder(key: str) -> tuple[str, str]:
    """Kind without its encoder, and the GPU."""
    kind, _, gpu = key.partition(" on ")
    return kind.rpartition("-")[0], gpu


def _without_scale(key: str) -> tuple[str, str]:
    """Kind without its encoder and its scale, and the GPU."""
    kind, gpu = _without_encoder(key)
    return _SCALE.sub("", kind), gpu


# Which kinds are alike, and how much further off, as a share, a prediction by such a one may be.
_NEAREST = ((_without_encoder, 0.1), (_without_scale, 0.2))


def _middle(alike: Sequence[Learned], further: float) -> Learned:
    """Corrections learned from jobs of several kinds together."""
    return Learned(
        factor=math.exp(sum(math.log(one.factor) for one in alike) / len(alike)),
        error=max(one.error for one in alike) + further,
        jobs=0,
        memory=tuple(one.memory_factor for one in alike),
    )


def _file() -> Path:
    return paths.cache_folder() / "rates.json"
