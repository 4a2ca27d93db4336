"""Similarity of an enlargement to the original, PSNR and SSIM of luma, for Lite and Lite Plus.

python -m tools.reports.quality [--photographs FOLDER] prints the tables of the model card.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from engine.bench.accuracy import psnr, ssim
from engine.core.errors import EngineError
from engine.core.paths import resource
from engine.models.lite.files import MODELS, TREATMENTS, WeightsFile
from engine.models.lite.net import LiteNet, load_lite
from tools.reports.photographs import Picture, installed_photographs, photographs_in
from tools.training.damage import coded, h264
from tools.training.degrade import reduced

CRFS = (18, 23, 28, 33)
Nets = Mapping[str, LiteNet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One enlargement against its original."""

    psnr_db: float
    ssim: float


def score_faithful(net: LiteNet, picture: Picture) -> dict[str, Score]:
    """Reduce by Pillow's bicubic, enlarge again by Pillow's Lanczos and by the network."""
    return score_clean({"lite": net}, picture)


def score_clean(nets: Nets, picture: Picture) -> dict[str, Score]:
    """Scores of several networks of one factor, as `score_faithful`."""
    target, source = _pair(picture, _scale(nets))
    return _scores(target[None], source[None], nets, slice(None))


def score_compressed(nets: Nets, picture: Picture, *, crf: float) -> dict[str, Score]:
    """Scores through H.264: a window gliding over the photograph; mean of every second frame."""
    target, source = _glide(picture, _scale(nets))
    damaged = coded(source, h264(crf))
    return _scores(target[1::2], damaged, nets, slice(1, None, 2))


def enlarge(net: LiteNet, *pictures: Picture) -> Picture:
    """uint8 [h, w, 3] -> uint8 [scale*h, scale*w, 3].

    Args:
        net: The network.
        pictures: The picture, the one before it and the one after it; those alone are seen that
            the network was made for.
    """
    frames = [
        torch.from_numpy(picture.copy()).permute(2, 0, 1)[None].float() / 255
        for picture in pictures[: net.config.frames]
    ]
    with torch.inference_mode():
        large = net(*frames)[0].mul(255).round_().clamp_(0, 255).to(torch.uint8)
    return np.asarray(large.permute(1, 2, 0).numpy(), dtype=np.uint8)


def with_neighbours(frames: Picture) -> list[tuple[Picture, Picture, Picture]]:
    """Each of the frames [n, h, w, 3], the one before it and the one after it; the ends repeat."""
    before, after = [*frames[:1], *frames[:-1]], [*frames[1:], *frames[-1:]]
    return list(zip(frames, before, after, strict=True))


def by_lanczos(picture: Picture, scale: int) -> Picture:
    """Pillow's Lanczos enlargement of uint8 [h, w, 3]."""
    size = (picture.shape[1] * scale, picture.shape[0] * scale)
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))


def mean_score(results: Iterable[Picture], targets: Iterable[Picture]) -> Score:
    """Mean of the scores of several enlargements."""
    pairs = list(zip(results, targets, strict=True))
    return Score(
        psnr_db=float(np.mean([psnr(*pair) for pair in pairs])),
        ssim=float(np.mean([ssim(*pair) for pair in pairs])),
    )


def _scale(nets: Nets) -> int:
    return next(iter(nets.values())).config.scale


def _scores(targets: Picture, sources: Picture, nets: Nets, which: slice) -> dict[str, Score]:
    """Scores of the results of some sources, which follow each other."""
    seen = with_neighbours(sources)[which]
    scale = _scale(nets)
    results = {"lanczos": [by_lanczos(source, scale) for source, _, _ in seen]}
    for name, net in nets.items():
        results[name] = [enlarge(net, *pictures) for pictures in seen]
    return {name: mean_score(pictures, targets) for name, pictures in results.items()}


def _pair(picture: Picture, scale: int) -> tuple[Picture, Picture]:
    """The photograph cut to a multiple of `scale`, and its reduction."""
    h, w = (side // scale * scale for side in picture.shape[:2])
    return picture[:h, :w], reduced(picture[:h, :w], scale)


def _glide(picture: Picture, scale: int, frames: int = 6) -> tuple[Picture, Picture]:
    """A short pan, 3 px right and 1 px down a frame: targets and reduced sources."""
    step = 2 * scale
    h = (picture.shape[0] - frames) // step * step
    w = (picture.shape[1] - 3 * frames) // step * step
    cuts = [picture[t : t + h, 3 * t : 3 * t + w] for t in range(frames)]
    return np.stack(cuts), np.stack([reduced(cut, scale) for cut in cuts])


def faithful_table(pictures: Mapping[str, Picture], weights: Path, scale: int) -> list[str]:
    """Markdown rows: PSNR and SSIM of Lanczos and of the faithful form of each model."""
    nets = {title: _loaded(weights, model, scale, "faithful") for model, title in MODELS.items()}
    columns = ["Lanczos dB"]
    for title in nets:
        columns += [f"{title} dB", "gain dB"]
    columns += [f"{title} SSIM" for title in ("Lanczos", *nets)]
    rows = _head(f"x{scale}, clean source", columns)
    scores = {name: score_clean(nets, picture) for name, picture in pictures.items()}
    for name, score in scores.items():
        rows.append(_row(name, list(score.values())))
    means = [_mean(scores.values(), key) for key in ("lanczos", *nets)]
    rows.append(_row("**mean**", means))
    return rows


def _loaded(weights: Path, model: str, scale: int, treatment: str) -> LiteNet:
    return load_lite(weights / WeightsFile(model, scale, treatment).name)


def _head(title: str, columns: Sequence[str]) -> list[str]:
    return [f"| {title} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]


def _row(name: str, scores: Sequence[Score]) -> str:
    rival, *ours = scores
    cells = [f"{rival.psnr_db:.2f}"]
    for one in ours:
        cells += [f"{one.psnr_db:.2f}", f"{one.psnr_db - rival.psnr_db:+.2f}"]
    cells += [f"{one.ssim:.4f}" for one in scores]
    return f"| {name} | {' | '.join(cells)} |"


def compressed_table(pictures: Mapping[str, Picture], weights: Path, scale: int) -> list[str]:
    """Markdown rows: means over the photographs for several strengths of H.264."""
    nets = {
        f"{title} {treatment}": _loaded(weights, model, scale, treatment)
        for model, title in MODELS.items()
        for treatment in TREATMENTS
    }
    kinds = [f"{name} {unit}" for unit in ("dB", "SSIM") for name in ("Lanczos", *nets)]
    rows = _head(f"x{scale}, H.264 source", kinds)
    for crf in CRFS:
        scores = [score_compressed(nets, p, crf=crf) for p in pictures.values()]
        means = [_mean(scores, key) for key in ("lanczos", *nets)]
        cells = [f"{m.psnr_db:.2f}" for m in means] + [f"{m.ssim:.4f}" for m in means]
        rows.append(f"| crf {crf} | {' | '.join(cells)} |")
    return rows


def _mean(scores: Iterable[Mapping[str, Score]], key: str) -> Score:
    chosen = [score[key] for score in scores]
    return Score(
        psnr_db=float(np.mean([s.psnr_db for s in chosen])),
        ssim=float(np.mean([s.ssim for s in chosen])),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the model card."""
    parser = argparse.ArgumentParser(prog="python -m tools.reports.quality")
    parser.add_argument("--photographs", type=Path, help="folder of uncompressed pictures")
    parser.add_argument("--weights", type=Path, default=resource("weights"))
    parser.add_argument("--scale", type=int, choices=(2, 4), nargs="*", default=(2, 4))
    options = parser.parse_args(arguments)
    try:
        folder = options.photographs
        pictures = photographs_in(folder) if folder else installed_photographs()
        for scale in options.scale:
            for table in (faithful_table, compressed_table):
                sys.stdout.write("\n".join(table(pictures, options.weights, scale)) + "\n\n")
    except FileNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except EngineError as error:
        sys.stderr.write(f"{error.message} {error.hint}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
