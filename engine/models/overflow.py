"""Parts of models whose values became too large for their dtype: the next wider one, remembered.

A part is widened step by step: sums in float32 where they were in half precision, then bfloat16,
which has the range of float32 in as many bytes, then float32 in twice as many. A step that the GPU
cannot take, or that changes nothing, is left out. Steps that cost no memory are remembered by the
weights file, and later jobs begin there; float32 is not, as the next video may not need it. Loads
no torch.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Literal, TypeVar

from engine.core.serialization import ResultFile
from engine.protocol.plan import WeightsPlan, WorkPlan
from engine.settings.switches import Switches

logger = logging.getLogger(__name__)
AnyWork = TypeVar("AnyWork", bound=WorkPlan)
Step = Literal["sums", "bfloat16", "float32", ""]  # "": there is none
Part = Literal["vae", "dit"]  # groups of switches

_REMEMBERED: tuple[Step, ...] = ("sums", "bfloat16")
_KEPT = ResultFile("overflows.json")


def widened(
    work: AnyWork, file: WeightsPlan, *, has_bf16: bool, field: str = "dtype", group: Part = "vae"
) -> AnyWork | None:
    """The work with a part one step wider, as it is remembered; None: it is as wide as can be.

    Args:
        work: Work in which a value became infinite or NaN.
        file: File of the part.
        has_bf16: The GPU multiplies bfloat16 in its matrix units.
        field: Field of the work that has the dtype of the part.
        group: Switches of the part.
    """
    step = _next_step(work, getattr(work, field), group, has_bf16=has_bf16)
    _remember(file, step)
    if not step:
        return None
    if step == "sums":
        return replace(work, switches=without_sums(work.switches, group))
    changes: dict[str, Any] = {field: step}
    return replace(work, **changes)


def vae_dtype(precision: str, device: str, file: WeightsPlan, *, has_bf16: bool) -> str:
    """Dtype of a VAE that the user wants, or the usual one of a device.

    On a GPU that is float16; bfloat16 where float16 was too narrow for the file before.

    Args:
        precision: Value of the setting `vae_precision`.
        device: "cpu" or "cuda".
        file: File of the VAE.
        has_bf16: The GPU multiplies bfloat16 in its matrix units.
    """
    if precision != "auto":
        return precision
    if device != "cuda":
        return "float32"
    return "bfloat16" if has_bf16 and _KEPT.text(_key(file)) == "bfloat16" else "float16"


def allowed(switches: Switches, file: WeightsPlan, group: Part = "vae") -> Switches:
    """Switches for a part: without sums in half precision where they overflowed before."""
    return without_sums(switches, group) if overflowed(file) else switches


def overflowed(file: WeightsPlan) -> bool:
    """Whether sums in half precision overflowed in a part before."""
    return bool(_KEPT.text(_key(file)))


def without_sums(switches: Switches, group: Part = "vae") -> Switches:
    """The switches with all sums of a part in float32."""
    if group == "dit":
        return replace(switches, dit=replace(switches.dit, fp16_sums=False))
    return replace(switches, vae=replace(switches.vae, fp16_sums=False))


def _next_step(work: WorkPlan, dtype: str, group: Part, *, has_bf16: bool) -> Step:
    vae, dit, is_half = work.switches.vae, work.switches.dit, dtype == "float16"
    has_sums = {
        "vae": vae.fp16_sums and vae.kernels and vae.convolution in ("auto", "kernel"),
        "dit": dit.fp16_sums and dit.kernels,
    }
    if is_half and work.device == "cuda" and has_sums[group]:
        return "sums"
    if is_half and work.device == "cuda" and has_bf16:
        return "bfloat16"
    return "" if dtype == "float32" else "float32"


def _remember(file: WeightsPlan, step: Step) -> None:
    """Keep the last step that costs nothing; forget the file where that was not enough."""
    if step in _REMEMBERED:
        logger.info("%s goes on with %s: values became too large", file.path.name, step)
        _KEPT.put(_key(file), step)
    else:
        _KEPT.forget(_key(file))


def _key(file: WeightsPlan) -> str:
    return f"{file.path.name}, {file.bytes} bytes"
