"""The pool of training pictures: drawn once from a seed by several processes, kept on disk."""

from __future__ import annotations

import logging
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from tools.training.generated.scenes import (
    SHARP,
    SOFT,
    Surfaces,
    random_picture,
)

log = logging.getLogger(__name__)

CHUNK = 32
"""Pictures that share one set of surfaces and one random generator."""
_SOFT_EVERY = 4

Pictures = np.ndarray
"""uint8 [n, side, side, 3]."""


def draw_chunk(seed: int, chunk: int, side: int) -> Pictures:
    """Pictures `chunk * CHUNK` and following of the pool with this seed, [CHUNK, side, side, 3]."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, chunk])
    surfaces = Surfaces(rng)
    lens = SOFT if chunk % _SOFT_EVERY == _SOFT_EVERY - 1 else SHARP
    return np.stack([random_picture(rng, surfaces, side, lens) for _ in range(CHUNK)])


def open_pool(folder: Path, *, seed: int, count: int, side: int, workers: int) -> Pictures:
    """Pictures of the pool; draws those that are not there yet.

    Args:
        folder: Folder of the pool, which may not exist yet; three bytes a pixel.
        seed: Another seed is another pool.
        count: Pictures wanted, rounded up to a whole chunk.
        side: Width and height of each, px.
        workers: Processes that draw.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chunks = -(-count // CHUNK)
    paths = [folder / f"seed{seed}_{side}px_{chunk:05d}.npy" for chunk in range(chunks)]
    todo = [(seed, chunk, side, path) for chunk, path in enumerate(paths) if not path.is_file()]
    if todo:
        log.info("drawing %d pictures", len(todo) * CHUNK)
        # Spawned, not forked: torch's threads do not survive a fork.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
            for done, _ in enumerate(
                executor.map(_draw_to_file, *zip(*todo, strict=True)), start=1
            ):
                log.info("chunk %d of %d", done, len(todo))
    return np.concatenate([np.load(path) for path in paths])


def _draw_to_file(seed: int, chunk: int, side: int, path: Path) -> None:
    pictures = draw_chunk(seed, chunk, side)
    unfinished = path.with_suffix(".part.npy")
    np.save(unfinished, pictures)
    unfinished.replace(path)
