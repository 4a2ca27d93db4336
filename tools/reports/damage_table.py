"""Table of damaged clips that Lite and Lite Plus enlarge: PSNR, SSIM, GMSD, flicker of luma.

python -m tools.reports.damage_table [--film FILE] [--weights FILE ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from subprocess import CalledProcessError

import numpy as np
import torch

from engine.bench.accuracy import luma
from engine.core.errors import EngineError
from engine.models.lite.files import MODELS, WeightsFile, weights_path
from engine.models.lite.net import load_lite
from tools.reports.damaged_clips import STILL, Clip, Frames, clips
from tools.reports.quality import by_lanczos, enlarge, mean_score, with_neighbours
from tools.training.lite import LUMA, edge_error

_JUDGED = slice(4, 20, 3)


def table(made: Sequence[Clip], weights: Sequence[Path]) -> list[str]:
    """Markdown rows: Lanczos, then each of the networks, all of them x2."""
    ways = {"Lanczos": _by_lanczos}
    for path in weights:
        ways[f"{path.parent.name}/{path.stem}"] = _by_lite(path)
    rows = [f"| clip | {' | '.join(ways)} |", "|---" * (1 + len(ways)) + "|"]
    flicker = []
    for clip in made:
        results = [enlarged(clip.damaged) for enlarged in ways.values()]
        rows.append(f"| {clip.name} | {' | '.join(_cell(clip, one) for one in results)} |")
        if clip.stands:
            flicker = [f"{_flicker(result[:STILL]):.2f}" for result in results]
    return [*rows, f"| flicker of noise, levels a frame | {' | '.join(flicker)} |"]


def _by_lanczos(frames: Frames) -> Frames:
    return np.stack([by_lanczos(frame, 2) for frame in frames])


def _by_lite(weights: Path) -> Callable[[Frames], Frames]:
    net = load_lite(weights)
    return lambda frames: np.stack([enlarge(net, *seen) for seen in with_neighbours(frames)])


def _cell(clip: Clip, result: Frames) -> str:
    result, original = result[_JUDGED], clip.original[_JUDGED]
    score = mean_score(result, original)
    edges = edge_error(*(torch.from_numpy(part @ LUMA / 255) for part in (result, original)))
    return f"{score.psnr_db:.2f}, {score.ssim:.4f}, {float(edges):.4f}"


def _flicker(frames: Frames) -> float:
    """Mean change of luma from frame to frame."""
    return float(np.mean([np.abs(luma(b) - luma(a)).mean() for a, b in pairwise(frames)]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.reports.damage_table")
    parser.add_argument("--film", type=Path, help="film for the clip of a phone")
    mine = [weights_path(WeightsFile(model, 2, "restore").name) for model in MODELS]
    parser.add_argument("--weights", type=Path, nargs="*", default=mine, help="networks, all x2")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        rows = table(clips(options.film), options.weights)
    except CalledProcessError as error:
        sys.stderr.write(error.stderr.decode(errors="replace"))
        return 1
    except (FileNotFoundError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
