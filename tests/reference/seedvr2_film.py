"""A whole film the way the published program does it, its oddities included: for comparisons.

Batches of frames are encoded, restored and decoded each by itself; neighbours may share frames,
which are mixed afterwards. Our own way (`shot`) has no seams in time and streams; this one holds
all frames in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.plan import reference_layout
from engine.models.seedvr2.preprocess import join, place
from engine.models.seedvr2.sampler import (
    Predict,
    condition,
    noisy_frames,
    noisy_latent,
    reference_noise,
    sample,
)
from engine.models.seedvr2.vae.load import Vae
from engine.ops.colour.correction import correct_colour
from engine.tiling.latent_clips import mirrored_indices
from tests.reference.frames import (
    clip_length,
    mirrored_indices_before,
    reference_overlap_weights,
    reference_result,
    resize_as_reference,
)

Trace = Callable[[str, Tensor], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions:
    """Options of the published program."""

    short_side: int  # of the result, px, rounded down to even
    longest: int = 0  # most px of a side; 0: no such limit
    batch: int = 5  # frames; best 1 + 4 n
    overlap: int = 0  # frames that two batches share, fewer than they have
    uniform: bool = False  # mirror the last batch at its end until it is as long as the others
    prepend: int = 0  # frames mirrored in front of the first one, and removed in the end
    colour: str = "lab"  # method of `correct_colour`
    seed: int = 42  # of the noise; each batch starts from it again
    latent_noise: float = 0.0  # 0 to 1, in what the transformer sees of the source
    input_noise: float = 0.0  # 0 to 1, in the frames before they are encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """What restores a batch: all of one device and type."""

    vae: Vae
    dit: Predict
    text: Tensor  # the embedding, [L, D]


Draw = Callable[[str, tuple[int, ...]], Tensor]
"""Noise of a batch of some shape: for the "frames", the "start", the "latent"."""


def reference_draw(seed: int) -> Draw:
    """Noise of one batch in the published order; that of frames is nowhere described, and ours."""
    latents = torch.Generator().manual_seed(seed)
    frames = torch.Generator().manual_seed(seed + 1)

    def draw(kind: str, shape: tuple[int, ...]) -> Tensor:
        return reference_noise(shape, frames if kind == "frames" else latents)

    return draw


def upscale_as_reference(
    frames: Tensor,
    models: Models,
    options: ReferenceOptions,
    *,
    draw: Callable[[int], Draw] = reference_draw,
    trace: Trace = lambda name, value: None,
) -> Tensor:
    """Restore all frames of a film [T, 3, H, W] float32, 0 to 1; new sides are even.

    `draw` makes the noise of a batch from the seed; `trace` gets what each stage gave:
    "batch0.noise" and so on, "assembled" at the end.
    """
    frames = frames[mirrored_indices_before(len(frames), options.prepend)]
    resized = resize_as_reference(frames, options.short_side, options.longest)
    layout = reference_layout(Size(resized.shape[-1], resized.shape[-2]))
    picture = reference_result(layout.picture)
    source, shown = place(resized, layout), (..., slice(picture.height), slice(picture.width))
    result = torch.empty_like(source[shown], memory_format=torch.contiguous_format)
    spans = batches(len(frames), options)
    for number, (start, stop) in enumerate(spans):
        clip = source[start:stop][lengthened(stop - start, options)]

        def traced(name: str, value: Tensor, batch: int = number) -> None:
            trace(f"batch{batch}.{name}", value)

        restored = restore_batch(clip, models, options, draw(options.seed), traced)
        done = spans[number - 1][1] if number else 0
        _put(result, restored[: stop - start][shown], start, done)
    source = source[shown]
    trace("source", source)
    trace("assembled", result)
    return coloured(result, source, spans, options.colour)[options.prepend :]


def batches(frames: int, options: ReferenceOptions) -> list[tuple[int, int]]:
    """First frame of each batch, and the one after its last.

    A batch that would bring no new frame is left out.
    """
    starts = range(0, max(1, frames - options.overlap), options.batch - options.overlap)
    return [(start, min(start + options.batch, frames)) for start in starts]


def lengthened(frames: int, options: ReferenceOptions) -> list[int]:
    """Indices of the frames of a batch: as long as the others if wanted, then 1 + 4 n."""
    indices = mirrored_indices(frames, max(0, options.batch - frames) if options.uniform else 0)
    more = mirrored_indices(len(indices), clip_length(len(indices)) - len(indices))
    return [indices[index] for index in more]


def restore_batch(
    clip: Tensor, models: Models, options: ReferenceOptions, draw: Draw, trace: Trace
) -> Tensor:
    """Restore one batch by itself: [T, 3, H, W] in [-1, 1], padded, T = 1 + 4 n."""
    if options.input_noise:
        clip = noisy_frames(clip, options.input_noise, draw("frames", clip.shape).to(clip))
    trace("clip", clip)
    latent = _encoded(models.vae, clip)
    trace("latent", latent)
    noise = draw("start", latent.shape).to(latent)
    trace("noise", noise)
    if options.latent_noise:
        more = draw("latent", latent.shape).to(latent)
        latent = noisy_latent(latent, options.latent_noise, noise, more)
    seen = condition(latent)
    trace("condition", seen)
    result = sample(models.dit, noise, seen, models.text)
    trace("result", result)
    decoded = _decoded(models.vae, result)
    trace("decoded", decoded)
    return decoded


def coloured(
    result: Tensor, source: Tensor, spans: Sequence[tuple[int, int]], method: str
) -> Tensor:
    """Hold each batch to the colours of its source: from [-1, 1] to [T, 3, H, W], 0 to 1."""
    result, source = result * 0.5 + 0.5, source * 0.5 + 0.5
    slices = pairwise((0, *(stop for _, stop in spans)))
    parts = [correct_colour(method, result[a:b], source[a:b]) for a, b in slices]
    return torch.cat(parts).clamp_(0, 1)


def _encoded(vae: Vae, clip: Tensor) -> Tensor:
    """[T, 3, H, W] -> the scaled latent [t, h, w, L]."""
    latent = vae.encode(clip.movedim(0, 1)[None])[0]
    return latent.movedim(0, -1) * vae.config.scaling_factor


def _decoded(vae: Vae, latent: Tensor) -> Tensor:
    """[t, h, w, L] -> frames [T, 3, H, W]."""
    return vae.decode(latent.movedim(-1, 0)[None] / vae.config.scaling_factor)[0].movedim(0, 1)


def _put(result: Tensor, part: Tensor, start: int, done: int) -> None:
    """Write a batch that begins at a frame; frames that are there already are mixed with it."""
    shared = done - start
    if shared:
        weights = reference_overlap_weights(shared)
        result[start:done] = join(result[start:done], part[:shared], weights)
    result[done : start + len(part)] = part[shared:]
