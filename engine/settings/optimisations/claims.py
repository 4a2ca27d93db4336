"""What documents of others promise, and where the registry answers it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A promise that nobody measured here.

    Attributes:
        title: What is said to help.
        says: How much.
        keys: Lines of the registry that are measured in its place.
        why_not: Why there is no such line, where there is none.
    """

    title: str
    says: str
    keys: tuple[str, ...] = ()
    why_not: str = ""


CLAIMS = (
    Claim(title="cuDNN benchmark", says="15-30 % faster", keys=("run.cudnn_benchmark",)),
    Claim(title="fused activation", says="5-10 % faster", keys=("dit.fused_steps",)),
    Claim(
        title="fused sampling",
        says="2-5 % faster",
        why_not="a restoration is one step: sampling is a sum and a product over the latents",
    ),
    Claim(title="channels last", says="5-15 % faster", keys=("vae.channels_last",)),
    Claim(
        title="tiled and sliced",
        says="fits into less memory",
        why_not="tiles and slices are always there, as large as the plan finds room for",
    ),
    Claim(title="in place", says="less memory", keys=("vae.in_place", "dit.in_place_residual")),
    Claim(title="pinned copies", says="faster", keys=("run.pinned_transfers",)),
    Claim(title="async tiles", says="10-20 % faster", keys=("run.copy_stream",)),
    Claim(title="CUDA graphs", says="10-30 % faster", keys=("vae.cuda_graph",)),
    Claim(title="chunked upsampling", says="30-50 % less memory", keys=("vae.chunked_upsampling",)),
    Claim(title="GroupNorm and SiLU in one", says="15-25 % faster", keys=("vae.fused_norm",)),
    Claim(
        title="FlashAttention in the VAE",
        says="faster, less memory",
        keys=("vae.chunked_attention",),
    ),
    Claim(title="FP8", says="faster, half the memory", keys=("dit.products",)),
    Claim(title="torch.compile", says="15-40 % faster", keys=("dit.compile",)),
)
