"""The plain decoder of SeedVR2 with 8-bit convolutions on the pretended GPU: what a slice takes.

`python -m tests.pretended_gpu.published_eight_bit` prints the table of docs/benchmarks/vae-8bit.md.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from engine.bench.eight_bit_conv import EightBit, convolve_in_eight_bits
from engine.bench.report import piped
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops.conv.causal_conv import Carry
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.published import GPU, Figures, figures

_HOW = (None, EightBit("int8", "row"), EightBit("int8", "tensor"), EightBit("fp8", "tensor"))
_SIZE = Size(256, 128)  # bytes and operations grow with the pixels
_SLICES = 2  # the first one is an image; the second has a past as all later ones


@torch.inference_mode()
def decode_step(size: Size, how: EightBit | None) -> Figures:
    """A steady slice of four frames, in float16 or with convolutions in 8 bits."""
    with pretended_gpu(**GPU) as gpu:
        with torch.device("meta"):
            vae = SeedVr2Vae(VaeConfig()).half()
        vae = vae.to_empty(device="cuda")
        if how is not None:
            convolve_in_eight_bits(vae.decoder, how)
        carry, found = Carry(), None
        for _ in range(_SLICES):
            step = partial(vae.decode_slice, _latent(size), carry.handed_over())
            carry, found = figures(gpu, step)
        assert found is not None
        return found


def _latent(size: Size) -> Tensor:
    shape = 1, 16, 1, size.height // 8, size.width // 8
    return torch.empty(shape, device="cuda", dtype=torch.float16)


def main() -> None:
    """Print the table."""
    grid: list[tuple[str, ...]] = [
        ("convolutions", "launches", "GB touched", "TFLOP", "peak GiB"),
    ]
    for how in _HOW:
        found = decode_step(_SIZE, how)
        grid.append(
            (
                "float16" if how is None else how.name,
                f"{found.launches:,}",
                f"{found.gigabytes:.1f}",
                f"{found.teraflops:.1f}",
                f"{found.peak_gib:.2f}",
            )
        )
    print("\n".join(piped(grid)))


if __name__ == "__main__":
    main()
