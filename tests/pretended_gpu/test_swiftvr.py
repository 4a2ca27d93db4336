"""SwiftVR on the pretended GPU: the processor's frames, and what is planned at published sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.swiftvr import requirements
from engine.models.swiftvr.chunks import ChunkGrid
from engine.models.swiftvr.dit import cost
from engine.models.swiftvr.dit.config import SWIFT_DIT
from engine.models.swiftvr.load import SwiftOptions, load_reae, load_swift_dit
from engine.models.swiftvr.plan import SwiftVrPlan, padded_size
from engine.models.swiftvr.shot import Shot
from engine.models.swiftvr.upscaler import SwiftVr
from engine.models.swiftvr.vae.config import REAE as PUBLISHED
from engine.models.swiftvr.vae.config import ReaeConfig
from engine.models.swiftvr.vae.fast import FastReae
from engine.models.swiftvr.vae.plain import Reae
from engine.models.video_vae.slicing import slices
from engine.ops.transfer.weight_streaming import WeightStream
from engine.protocol.plan import WeightsPlan
from engine.settings.optimisations import VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.extended import rest_extended
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import PROMPT, TINY_DIT, tiny_reae, write_dit, written
from tests.helpers.tensors import relative_rms
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.passes import of_swift, swift_dit
from tests.pretended_gpu.published import GPU

pytestmark = pytest.mark.pretended_gpu

SIZES = replace(TINY_DIT, channels=8, head_dim=32, hidden=96, text_dim=16)  # GPUs multiply by 8
REAE = ReaeConfig(encoder_width=8, decoder_widths=(32, 24, 16, 8), latent_channels=8)
STREAMED = {"blocks_on_device": 1, "pin_bytes": 10**7}
# Type, options of the transformer, and the largest difference in units of the result.
CASES: dict[str, tuple[torch.dtype, dict[str, Any], float]] = {
    "resident": (torch.float32, {}, 1e-4),
    "streamed": (torch.float32, STREAMED, 1e-4),
    "float16": (torch.float16, {}, 3e-3),
    "float16, streamed": (torch.float16, STREAMED, 3e-3),
    "int8": (torch.float32, {"products": "int8"}, 3e-2),
    "fp8, streamed": (torch.float16, {"products": "fp8", **STREAMED}, 6e-2),
}


def shot_of(folder: Path, frames: Tensor, dtype: torch.dtype, device: str, **about: Any) -> Tensor:
    options, switches = SwiftOptions(attention="math", **about), VaeSwitches(convolution="3d")
    place: dict[str, Any] = {"device": device, "dtype": dtype}
    vae = load_reae(folder / "reae.safetensors", form="fast", switches=switches, **place)
    dit = load_swift_dit(folder / "dit.safetensors", folder / PROMPT, options=options, **place)
    shot = Shot(vae, dit, ChunkGrid(2))
    parts = []
    for start in range(0, len(frames), 6):
        some = frames[start : start + 6].to(device, dtype)
        parts += [one.frames.cpu() for one in shot.push(some, last=start + 6 >= len(frames))]
    vae.release()
    dit.close()
    return torch.cat(parts)


@pytest.mark.parametrize("case", rest_extended(CASES, "float16, streamed"))
def test_a_shot_gives_what_the_processor_gives(case: str, tmp_path: Path) -> None:
    dtype, options, most = CASES[case]
    written(tmp_path / "reae.safetensors", tiny_reae(REAE))
    write_dit(tmp_path / "dit.safetensors", SIZES)
    frames = (random_frames(15, 3, 32, 64).float() + 1) / 2
    wanted = shot_of(tmp_path, frames, torch.float32, "cpu")
    with pretended_gpu() as gpu, torch.inference_mode():
        found = shot_of(tmp_path, frames, dtype, "cuda", **options)
    assert found.shape == wanted.shape == frames.shape
    assert relative_rms(found, wanted) <= most
    assert not gpu.record.problems


def test_memory_blocks_are_convolved_by_the_kernel() -> None:
    """Their past lies beside the frames; slices and the whole clip are as on the processor."""
    plain = tiny_reae(REAE)
    frames = (random_frames(1, 3, 12, 32, 64) + 1) / 2
    latent = random_frames(1, REAE.latent_channels, 3, 2, 4)
    wanted = plain.encode(frames), plain.decode(latent)
    place: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
    with pretended_gpu() as gpu, torch.inference_mode():
        switches = VaeSwitches(convolution="kernel")
        vae = FastReae(REAE, plain.state_dict(), switches=switches, **place)
        for size in (None, 4):
            vae.disable_slicing() if size is None else vae.enable_slicing(size)
            for found, right in zip(
                (vae.encode(frames.half()), vae.decode(latent.half())), wanted, strict=True
            ):
                assert relative_rms(found.cpu(), right) < 6e-3
        launches = gpu.record.launches
        assert launches["kernel convolve"] > 10 * launches["convolution"]  # of three colours
    assert not gpu.record.problems


# --- published sizes, without values

FEW = replace(SWIFT_DIT, layers=4)
GRID_OF_TEST = (7, 46, 80)  # latents of a chunk at 1280x736
# Size, types of transformer and autoencoder, products, rows of the prompt, and blocks that stay.
CELLS: dict[str, tuple[Size, str, str, str, int, int | None]] = {
    "bfloat16": (Size(1280, 720), "bfloat16", "float16", "none", 2, None),
    "streamed": (Size(1280, 720), "bfloat16", "float16", "none", 2, 0),
    "float16, 1080p": (Size(1920, 1080), "float16", "float16", "none", 2, 2),
    "fp8, 1080p": (Size(1920, 1080), "bfloat16", "float16", "fp8", 512, None),
    "int8": (Size(1280, 720), "bfloat16", "bfloat16", "int8", 512, None),
    "2160p": (Size(3840, 2160), "bfloat16", "float16", "none", 512, 0),
}


@pytest.mark.parametrize("cell", rest_extended(CELLS))
def test_a_shot_takes_the_memory_that_is_planned(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, dtype, vae_dtype, products, rows, blocks = CELLS[cell]
    nowhere = WeightsPlan(path=Path())
    plan = SwiftVrPlan(
        device="cuda",
        dtype=dtype,
        vae_dtype=vae_dtype,
        dit=nowhere,
        vae=nowhere,
        size=size,
        padded=padded_size(size),
        products=products,
        blocks_on_device=blocks,
        pin_bytes=10**11,
        switches=Switches(vae=VaeSwitches(convolution="3d")),
    )
    monkeypatch.setattr("engine.models.swiftvr.files.configs", lambda _: (FEW, rows, PUBLISHED))
    requirements.needs.cache_clear()
    planned = requirements.needs(plan)
    requirements.needs.cache_clear()
    with torch.device("meta"):
        weights = Reae(PUBLISHED).state_dict()
    with pretended_gpu(**GPU) as gpu, torch.inference_mode():
        place: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, vae_dtype)}
        vae = FastReae(PUBLISHED, weights, switches=plan.switches.vae, **place)
        dit = swift_dit(FEW, dtype, products, rows)
        if blocks is not None:
            about: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, dtype)}
            stream = WeightStream(list(dit.blocks), resident=blocks, pin_bytes=10**11, **about)
            dit.stream = stream
        gpu.allocator.most_requested = gpu.allocator.requested
        _run(SwiftVr(plan, vae, dit), Size(size.width // 2, size.height // 2), 57)
        found = gpu.allocator.most_requested
    assert found <= planned.device <= 1.1 * found, f"{cell}: {planned.device / found:.3f}"
    assert not gpu.record.problems


def _run(model: SwiftVr, size: Size, frames: int) -> None:
    """A shot from frames of the source to finished frames."""

    def source(count: int) -> Tensor:
        return torch.empty(count, 3, size.height, size.width, device="cuda")

    running = model.shot(0, 0, lambda _: None)
    for start, end in slices(frames, model.slice_frames):
        for part in running.push(source(end - start), last=end == frames):
            model.finished(part.frames, source(len(part.frames)))
            del part
    model.close()


@pytest.mark.parametrize(
    ("dtype", "products", "rows"),
    rest_extended([("bfloat16", "none", 2), ("float16", "int8", 2), ("bfloat16", "fp8", 512)]),
)
def test_passes_and_operations_are_those_that_are_planned(
    dtype: str, products: str, rows: int
) -> None:
    few, more = replace(FEW, layers=2), FEW
    use = cost.DitUse(config=more, rows=rows, dtype=dtype, products=products)
    found = [of_swift(config, GRID_OF_TEST, dtype, products, rows) for config in (few, more)]
    planned = cost.forward_passes(use, GRID_OF_TEST)
    moved, launched = (more.layers / 2 * (b - a) for a, b in zip(*found, strict=True))
    assert planned.moved == pytest.approx(moved, rel=0.06)
    assert planned.launches == pytest.approx(launched, rel=0.1)
