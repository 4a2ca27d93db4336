"""Speed of the models on one thread; quality of Lite.

`python -m tools.figures.models speed|quality` measures in this process and writes figures as JSON.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from engine.bench.cases import operators
from engine.bench.run import BenchOptions
from engine.bench.workload import dit_run, vae_run
from engine.core.geometry import Size
from engine.hardware import devices
from engine.models.lite import files
from engine.models.lite.upscaler import upscaler
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.video_vae.vae_use import Side
from tools.figures.child import cpu_seconds, report

Work = Callable[[], object]

_TURNS = 3
_BRIEF_S = 0.12  # shorter work is repeated
_FRAMES = 5
_LITE = Size(240, 136)
_VAE = Size(64, 64)
_TRANSFORMER = Size(320, 192)
_HALF_VAE = replace(VAE, block_out_channels=(64, 128, 256, 256))
_SMALL_DIT = replace(random_dit.MIDDLE["3b"], layers=4, separate_layers=2)


def speeds() -> dict[str, float]:
    """CPU seconds of each model, medians of some turns."""
    torch.set_num_threads(1)
    dtypes = ("float32", "bfloat16") if devices.cpu_has_bf16() else ("float32",)
    works = [work for dtype in dtypes for work in _works(dtype)]
    turns: dict[str, list[float]] = {name: [] for name, _ in works}
    with torch.inference_mode():
        for _, work in works:
            work()
        for _ in range(_TURNS):
            for name, work in works:
                turns[name].append(cpu_seconds(work, at_least=_BRIEF_S))
    return {f"models.{name}": statistics.median(each) for name, each in turns.items()}


def qualities() -> dict[str, float]:
    """Means of PSNR and SSIM of Lite over scikit-image's photographs; nothing without them."""
    from engine.models.lite.net import load_lite
    from tools.reports import quality
    from tools.reports.photographs import installed_photographs

    try:
        photographs = installed_photographs()
    except FileNotFoundError:
        return {}
    pictures = [photographs[name] for name in _PHOTOGRAPHS if name in photographs]
    if len(pictures) < len(_PHOTOGRAPHS):
        return {}
    found = {}
    for scale in files.SCALES:
        net = load_lite(files.weights_path(files.WeightsFile("lite", scale, "faithful").name))
        scores = [quality.score_faithful(net, picture)["lite"] for picture in pictures]
        found[f"quality.lite_{scale}x_psnr"] = statistics.mean(s.psnr_db for s in scores)
        found[f"quality.lite_{scale}x_ssim"] = statistics.mean(s.ssim for s in scores)
    return found


_PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "motorcycle_left")


def _works(dtype: str) -> Iterator[tuple[str, Work]]:
    ending = "" if dtype == "float32" else f"_{dtype}"
    yield f"lite_2x{ending}", _lite(2, dtype)
    yield f"transformer{ending}", _transformer(dtype)
    yield f"seedvr2_vae_encode{ending}", _vae("seedvr2-vae", "encode", dtype, _HALF_VAE)
    yield f"seedvr2_vae_decode{ending}", _vae("seedvr2-vae", "decode", dtype, _HALF_VAE)
    yield f"wan_vae_encode{ending}", _vae("wan21-vae", "encode", dtype)
    yield f"wan_2x_decode{ending}", _vae("wan-2x", "decode", dtype)
    if dtype == "float32":
        yield "lite_4x", _lite(4, dtype)
        yield "passes", _passes


def _lite(scale: int, dtype: str) -> Work:
    model = upscaler(files.WeightsFile("lite", scale, "faithful"), dtype=dtype)
    frames = torch.rand(2, 3, _LITE.height, _LITE.width)
    return lambda: model.upscale(frames)


def _vae(model: str, side: Side, dtype: str, config: VaeConfig | None = None) -> Work:
    options = BenchOptions(
        model=model, device="cpu", config=config, size=_VAE, dtype=dtype, threads=1
    )
    run = replace(vae_run(options, side), form="fast", frames=_FRAMES)
    return run.ready()


def _transformer(dtype: str) -> Work:
    options = BenchOptions(device="cpu", dit=_SMALL_DIT, size=_TRANSFORMER, dtype=dtype, threads=1)
    run = replace(dit_run(options, "3b"), form="fast", frames=_FRAMES)
    return run.ready()


def _passes() -> None:
    """All passes over frames and tokens that have kernels on a GPU; in the bench they are rows."""
    for _ in operators.kernel_rows(BenchOptions(device="cpu", quick=True)):
        pass


if __name__ == "__main__":
    report(speeds() if sys.argv[1:] == ["speed"] else qualities())
