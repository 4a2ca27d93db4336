"""The models there are: what they are called, which files they need, what they cost.

Loads without torch; a model's module is imported when the model is asked for.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import UnknownKeys, WeightsMissing
from engine.core.paths import resource
from engine.protocol.plan import ModelPlan, WeightsPlan

if TYPE_CHECKING:
    from engine.models.contracts import FrameUpscaler, ShotModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model as the planner sees it."""

    id: str
    title: str
    scales: tuple[int, ...]  # factors it was made for; others are reached by resizing
    forms: tuple[str, ...] = ("",)

    def weights_name(self, scale: int, form: str) -> str:
        """File name of the numbers for one factor and form; "" when it needs none."""
        return f"{self.id}_x{scale}_{form}.safetensors" if self.forms != ("",) else ""


LITE = ModelSpec(id="lite", title="Lite", scales=(2, 4), forms=("faithful", "restore"))
NONE = ModelSpec(id="none", title="No model", scales=(1,))
SEEDVR2 = (
    ModelSpec(id="seedvr2-3b", title="SeedVR2 3B", scales=(1,)),
    ModelSpec(id="seedvr2-7b", title="SeedVR2 7B", scales=(1,)),
    ModelSpec(id="seedvr2-7b-sharp", title="SeedVR2 7B sharp", scales=(1,)),
)
WAN_2X = ModelSpec(id="wan-2x", title="Wan 2x", scales=(2,))
SPECS = {spec.id: spec for spec in (LITE, *SEEDVR2, WAN_2X, NONE)}


def is_seedvr2(model: str) -> bool:
    """Whether a model restores shots at the size of the result."""
    return any(spec.id == model for spec in SEEDVR2)


def weights_path(name: str) -> Path:
    """Where the numbers of a built-in model lie.

    Raises:
        WeightsMissing: The program's own files are incomplete.
    """
    path = resource("weights", name)
    if not path.is_file():
        raise WeightsMissing(
            f"The model file {name} is missing.", hint="Install Upreel again.", file=name
        )
    return path


@cache
def weights_sha256(name: str) -> str:
    """SHA-256 of a built-in model's numbers: part of what a checkpoint depends on."""
    return hashlib.sha256(weights_path(name).read_bytes()).hexdigest() if name else ""


@cache
def weights_shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a built-in model's tensors, read from the head of its file.

    Raises:
        WeightsMissing: The file is not there.
        UnknownKeys: It is no safetensors file.
    """
    try:
        with weights_path(name).open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            head = json.loads(file.read(min(length, 2**20)))
        return {key: tuple(about["shape"]) for key, about in head.items() if key != "__metadata__"}
    except (struct.error, ValueError, KeyError, AttributeError) as err:
        raise UnknownKeys(
            f"The model file {name} is damaged.", hint="Install Upreel again.", file=name
        ) from err


def has_changed(plan: ModelPlan) -> bool:
    """Whether the numbers of a model are others than those that a job began with."""
    if plan.weights_files:
        return any(map(is_changed, plan.weights_files))
    return weights_sha256(plan.weights) != plan.weights_sha256


def is_changed(weights: WeightsPlan) -> bool:
    """Whether a file is another one than when a job was planned, or gone."""
    try:
        about = weights.path.stat()
    except OSError:
        return True
    return (about.st_size, about.st_mtime_ns) != (weights.bytes, weights.modified_ns)


def shot_model(plan: ModelPlan) -> ShotModel:
    """The model of a plan that takes shots, on its device, ready to run.

    Raises:
        WeightsError: The numbers are not there or not right.
        FeatureMissing: The device cannot do what the plan says.
    """
    if plan.wan is not None:
        from engine.models.wan.upscaler import load_wan_upscaler

        return load_wan_upscaler(plan)
    from engine.models.seedvr2.upscaler import load_seedvr2

    return load_seedvr2(plan)


def frame_model(plan: ModelPlan) -> FrameUpscaler | None:
    """The model of a plan that takes frames one by one; None for "none".

    Raises:
        WeightsMissing, UnknownKeys: The numbers are not there or not right.
    """
    return None if plan.model == NONE.id else lite(plan)


def lite(plan: ModelPlan) -> FrameUpscaler:
    """The built-in model as a plan says.

    Raises:
        WeightsMissing, UnknownKeys: The numbers are not there or not right.
    """
    from engine.models.lite.net import load_lite
    from engine.models.lite.upscaler import LiteUpscaler

    return LiteUpscaler(load_lite(weights_path(plan.weights)), plan)
