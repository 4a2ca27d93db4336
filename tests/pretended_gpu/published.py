"""The models at their published sizes on the pretended GPU, without values: what a step takes.

`python -m tests.pretended_gpu.published` prints the table; with `--write` it becomes the baseline
of `test_published.py` and docs/benchmarks/pretended-gpu.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.core.geometry import Size
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops.conv.causal_conv import Carry
from engine.ops.linear.formats import swap_linears
from engine.settings.optimisations import DitSwitches, VaeSwitches
from tests.pretended_gpu.gpu import PretendedGpu, Record
from tests.pretended_gpu.machine import pretended_gpu

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "pretended-gpu.md"
BASELINE = Path(__file__).with_suffix(".json")
GPU: dict[str, Any] = {"has_values": False, "processors": 60, "total_bytes": 192 * 2**30}
SIZES = {"720p": Size(1280, 720), "1080p": Size(1920, 1088), "4K tile": Size(1088, 1088)}
SMALL = Size(256, 256)  # of the smallest tiles of the VAE
CLIP, SHORT_CLIP = 6, 2  # latents, 21 and 5 frames
TEXT = 58  # tokens
VAE = VaeSwitches(convolution="3d")
DIT = DitSwitches(attention="efficient", fp16_sums=False)
_SLICES = 3  # until the steady state


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Cost of one step.

    Attributes:
        launches: Kernels, copies within the GPU included.
        gigabytes: Read and written.
        teraflops: Operations of matrix products and convolutions, 10^12.
        waits: Waits of the host.
        convolutions: Shapes that cuDNN measures, in all slices so far.
        peak_gib: Allocated at most, weights included.
        besides: Gigabytes that convolutions do not read and write themselves, of a VAE.
    """

    launches: int
    gigabytes: float
    teraflops: float
    waits: int
    convolutions: int
    peak_gib: float
    besides: float = 0.0


def figures(gpu: PretendedGpu, work: Callable[[], Any]) -> tuple[Any, Figures]:
    """The last part of the result of some work, and its cost."""
    convolutions = gpu.record.convolutions
    gpu.record = Record(convolutions=convolutions)
    gpu.allocator.forget_peak()
    last = work()[-1]
    record = gpu.record
    assert not record.problems, record.problems
    own = sum(record.touched[name] for name in ("convolution", "kernel convolve"))
    return last, Figures(
        launches=sum(record.launches.values()),
        gigabytes=round(sum(record.touched.values()) / 1e9, 3),
        teraflops=round(record.operations / 1e12, 3),
        waits=sum(record.waits.values()),
        convolutions=len(convolutions),
        peak_gib=round(gpu.allocator.peak / 2**30, 3),
        besides=round((sum(record.touched.values()) - own) / 1e9, 3) if own else 0.0,
    )


def vae_steps(size: Size) -> Iterator[tuple[str, Figures]]:
    """A steady slice of four frames through encoder and decoder, in float16.

    Convolutions are those of cuDNN, and of our kernel.
    """
    for name in ("encode", "decode"):
        yield name, vae_step(name, size, VAE)
        yield f"{name}, kernel", vae_step(name, size, replace(VAE, convolution="kernel"))


def vae_step(name: str, size: Size, switches: VaeSwitches) -> Figures:
    """One side, "encode" or "decode", with some switches."""
    with torch.device("meta"):
        weights = SeedVr2Vae(VaeConfig()).state_dict()
    make = _encode if name == "encode" else _decode
    with pretended_gpu(**GPU) as gpu:
        vae = FastVae(VaeConfig(), weights, device="cuda", dtype=torch.float16, switches=switches)
        carry = Carry()
        found = None
        for index in range(_SLICES):
            given = make(size, index == 0)
            step = vae.encode_slice if name == "encode" else vae.decode_slice
            carry, found = figures(gpu, partial(step, given, carry.handed_over()))
        assert found is not None
        return found


def _encode(size: Size, is_first: bool) -> Tensor:
    frames = 5 if is_first else 4
    return torch.empty(1, 3, frames, size.height, size.width, device="cuda", dtype=torch.float16)


def _decode(size: Size, is_first: bool) -> Tensor:
    shape = 1, 16, 2 if is_first else 1, size.height // 8, size.width // 8
    return torch.empty(shape, device="cuda", dtype=torch.float16)


@cache  # each takes seconds, and several tests look at the same ones
def transformer_step(
    config: DitConfig,
    size: Size,
    switches: DitSwitches = DIT,
    stored: str = "",
    dtype: torch.dtype = torch.bfloat16,
    *,
    clip: int = CLIP,
) -> Figures:
    """A clip through the transformer, the second one, with the weights on the GPU.

    Args:
        config: Configuration of the model.
        size: Size of the frames.
        switches: Optimisations.
        stored: Format of the matrices in the blocks, as a file names it; "": `dtype`.
        dtype: Type that is computed in; float16 has its residual stream in float32.
        clip: Latents.
    """
    with pretended_gpu(**GPU) as gpu:
        with torch.device("meta"):
            dit = FastDit(config, switches)
        linears = (name for name, one in dit.blocks.named_modules() if isinstance(one, nn.Linear))
        swap_linears(dit, {f"blocks.{name}": stored for name in linears if stored})
        weights = {
            name: torch.empty(x.shape, dtype=_dtype_of(x, dtype), device="cuda")
            for name, x in dit.state_dict().items()
        }
        dit.load_state_dict(weights, assign=True)
        dit.requires_grad_(False)
        dit.finish_loading()
        shape = clip, -(-size.height // 16) * 2, -(-size.width // 16) * 2, config.in_channels
        latent = torch.empty(shape, device="cuda", dtype=dtype)
        text = torch.empty(TEXT, config.text_in_dim, device="cuda", dtype=dtype)
        dit(latent, text, 1000.0)
        return figures(gpu, lambda: dit(latent, text, 1000.0))[1]


def _dtype_of(weight: Tensor, dtype: torch.dtype) -> torch.dtype:
    return dtype if weight.dtype == torch.float32 else weight.dtype


def all_figures() -> dict[str, Figures]:
    """Figures of every step, by "encode 720p"."""
    found = {}
    for title, size in SIZES.items():
        for name, step in vae_steps(size):
            found[f"{name} {title}"] = step  # "decode, kernel 1080p"
        for name, config in (("3B", DIT_3B), ("7B", DIT_7B)):
            found[f"{name} {title}"] = transformer_step(config, size)
            narrow = transformer_step(config, size, dtype=torch.float16)
            found[f"{name}, float16 {title}"] = narrow
    return found | small_figures()


def small_figures() -> dict[str, Figures]:
    """Steps in which launches weigh most: a small tile, and a short clip."""
    found = {f"{name} 256 px": step for name, step in vae_steps(SMALL)}
    short = transformer_step(DIT_3B, SIZES["720p"], clip=SHORT_CLIP)
    return {**found, "3B 720p, 5 frames": short}


def known() -> tuple[dict[str, Figures], dict[str, Figures]]:
    """The committed figures, now and before, by step."""
    tables = json.loads(BASELINE.read_text("utf-8"))
    rows = tables["now"], tables["before"]
    now, before = ({name: Figures(**row) for name, row in table.items()} for table in rows)
    return now, before


def page(found: dict[str, Figures], before: dict[str, Figures]) -> str:
    """The table as a document.

    Args:
        found: By step.
        before: Figures of the version in which sums, biases and statistics had their own passes.
    """
    lines = [
        "# Cost of each step at published sizes, counted without a GPU",
        "",
        "This page is written by `python -m tests.pretended_gpu.published --write`: the GPU code",
        "runs on a pretended GPU (`tests/pretended_gpu`), VAEs in float16 with 3-D convolutions,",
        'transformers in bfloat16. Rows with "float16" are for GPUs without bfloat16 (RTX 20): the',
        'residual stream is in float32 there; "before" is then the row above.',
        "Launches, bytes and operations are counted; no time is measured. Encode and decode are a",
        "later slice of four frames, 3B and 7B a clip of 21 frames. At 1080p the decoder has a",
        "convolution with more than 2^31 values, which is computed in parts ([h100.md](h100.md)).",
        "The last rows, a small tile and a short clip, have the most launches for their work.",
        'In rows with "kernel", Upreel computes the convolutions that its kernel can; "before" is',
        "then the row above, in which cuDNN does. Its bytes include those of the residual stream.",
        "Launches are divided so that none takes longer than half a second on the GPU that runs",
        "them (`engine/ops/launches.py`): here one with 60 multiprocessors of RTX 40.",
        "",
        '"Before" is the count of an earlier version, in which biases, residual sums, statistics',
        "of the next norm and copies for the next slice had passes of their own. The bias of a",
        "convolution counts as a pass, because torch adds it to cuDNN's result. In that version",
        "cuDNN also measured the shapes at the start of a clip: 40 in total for encoding, 41 for",
        "decoding.",
        "",
        "| step | launches | before | GB touched | before | change | GB besides convolutions |"
        " TFLOP | host waits | convolutions measured | peak GiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, figures in found.items():
        earlier = before.get(name)
        compared = ("", "", "")
        if earlier is not None:
            change = f"{figures.gigabytes / earlier.gigabytes - 1:+.1%}"
            compared = f"{earlier.launches:,}", f"{earlier.gigabytes:.1f}", change
        cells = (
            f"{figures.launches:,}",
            compared[0],
            f"{figures.gigabytes:.1f}",
            *compared[1:],
            f"{figures.besides:.1f}" if figures.besides else "",
            f"{figures.teraflops:.2f}",
            str(figures.waits),
            str(figures.convolutions),
            f"{figures.peak_gib:.2f}",
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page and the baseline")
    options = parser.parse_args()
    found, (_, before) = all_figures(), known()
    for kind in (", kernel", ", float16"):
        before |= {
            name: found[name.replace(kind, "")]
            for name in found
            if kind in name and "256" not in name
        }
    text = page(found, before)
    print(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
        tables = {
            title: {name: asdict(each) for name, each in table.items()}
            for title, table in (("now", found), ("before", before))
        }
        BASELINE.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
