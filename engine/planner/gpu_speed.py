"""Speed of a GPU of which nothing was measured.

GPUs differ by what their matrix units, their memory and the link to main memory can do at most
(`resources/gpus.toml`). The shares of it that programs get follow from runs of other programs with
these models (`docs/predictions.md`); none was seen on a GPU with Upreel.
"""

from __future__ import annotations

from engine.hardware.gpu_table import Generation, GpuSpec
from engine.models.contracts import WorkKind

# Of the matrix units' rate, by the VAE and the transformer. docs/predictions.md has the runs of
# other programs that they are fitted to; a test compares. Runs cannot tell the two apart.
GENERATION_SHARE: dict[Generation, float] = {
    "turing": 0.34,
    "ampere": 0.34,
    "ada": 0.39,
    "blackwell": 0.46,
}
_LITE_SHARE = 0.2  # a guess
_SINGLE_SHARE = 0.5  # in float32, which the matrix units do not compute
# Operations for a byte that is moved to or from the GPU's memory, in half precision: the VAE
# of SeedVR2 with norms in passes of their own 1000, the transformer's layers over whole clips 500,
# the few channels of Lite 60.
_INTENSITY: dict[WorkKind, float] = {"vae": 1000, "transformer": 500, "lite": 60}
BANDWIDTH_SHARE = 0.6
_PINNED_SHARE, _PAGED_SHARE = 0.8, 0.3  # of the link, from pinned memory and from any other
_EXPOSED = 0.1  # of the shorter of computing and copying is not hidden by the other
_RESTORE_BYTES = 100  # moved for a pixel of the result: exact size, colours, code values
_TRANSFER_BYTES = 6  # of a pixel that goes to main memory
_HALF = ("float16", "bfloat16")


def compute_seconds(gpu: GpuSpec, kind: WorkKind, dtype: str, operations: float) -> float:
    """Seconds of so many floating-point operations.

    Args:
        gpu: What it can do at most.
        kind: Of the work.
        dtype: GPUs before Ampere do not multiply bfloat16 in matrix units.
        operations: One multiply-add is two.
    """
    is_half = dtype in _HALF and not (dtype == "bfloat16" and gpu.capability < (8, 0))
    share = _LITE_SHARE if kind == "lite" else GENERATION_SHARE[gpu.generation]
    rate = gpu.half_flops * share if is_half else gpu.single_flops * _SINGLE_SHARE
    moved = operations / _INTENSITY[kind] * (1 if dtype in _HALF else 2)
    return max(operations / rate, moved / (gpu.bandwidth * BANDWIDTH_SHARE))


def copy_seconds(gpu: GpuSpec, pinned_bytes: float, paged_bytes: float) -> float:
    """Seconds of copying between the GPU and pinned main memory, and any other."""
    link = gpu.link_bandwidth
    return pinned_bytes / (link * _PINNED_SHARE) + paged_bytes / (link * _PAGED_SHARE)


def with_copying(computing: float, copying: float) -> float:
    """Seconds of a stage whose weights are copied while it computes; most of it hides."""
    return max(computing, copying) + _EXPOSED * min(computing, copying)


def restore_seconds(gpu: GpuSpec, pixels: float) -> float:
    """Seconds of bringing so many pixels of the result to their size and colours, and away."""
    moving = pixels * _RESTORE_BYTES / (gpu.bandwidth * BANDWIDTH_SHARE)
    return moving + pixels * _TRANSFER_BYTES / (gpu.link_bandwidth * _PAGED_SHARE)
