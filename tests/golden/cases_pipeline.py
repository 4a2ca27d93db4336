"""Whole films through the tiny models as the published program does it, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import torch
from torch import Tensor

from engine.models.load import FORMS
from engine.models.seedvr2.dit.load import load_dit
from engine.models.seedvr2.vae.load import load_vae
from tests.golden import files
from tests.golden.cases_frames import compared_ranked
from tests.golden.outcome import Outcome, compared
from tests.reference.frames import mirrored_indices_before
from tests.reference.seedvr2_film import (
    Draw,
    Models,
    ReferenceOptions,
    batches,
    coloured,
    reference_draw,
    upscale_as_reference,
)

LATENT_LIMIT = 2e-4  # largest absolute differences; the README of the golden files suggests them
FRAME_LIMIT = 5e-4
EXACT_LIMIT = 1e-5  # of what has not been through a model yet
RANKED_MEAN_LIMIT = FRAME_LIMIT  # ranks jump: a disturbance of 3e-6 moves the mean by up to 2e-4
_RANKED = ("lab", "hsv", "wavelet_adaptive")

# what comes after "batch0." in a name -> (our stage, limit)
_STAGES: dict[str, tuple[str, float]] = {
    "transformed_cthw_-1_1": ("clip", EXACT_LIMIT),
    "cond_latent_thwc_scaled": ("latent", LATENT_LIMIT),
    "noise_thwc": ("noise", EXACT_LIMIT),
    "condition_thwc17": ("condition", LATENT_LIMIT),
    "dit_input_thwc33": ("input", LATENT_LIMIT),
    "dit_prediction_thwc": ("prediction", LATENT_LIMIT),
    "upscaled_latent_thwc": ("result", LATENT_LIMIT),
    "decoded_cthw": ("decoded", FRAME_LIMIT),
    "assembled_thwc_before_postprocess": ("assembled", FRAME_LIMIT),
}
# an option in the metadata -> ours
_OPTIONS = {"res": "short_side", "maxres": "longest", "bs": "batch", "ov": "overlap"}
_OPTIONS |= {"uni": "uniform", "prep": "prepend", "color": "colour", "seed": "seed"}
_OPTIONS |= {"lns": "latent_noise", "ins": "input_noise"}
_GIVEN = ("input.", "input_noise_randn_cthw", "aug_randn_thwc")


@dataclass(frozen=True, slots=True)
class Film:
    """A golden film."""

    tensors: dict[str, Tensor]  # what every stage gave
    frames: Tensor  # [T, 3, H, W], 0 to 1, what goes in
    options: ReferenceOptions
    kind: str  # transformer that its weights' file names begin with

    def draw(self) -> Callable[[int], Draw]:
        """Noise of each batch, as the film was made with it."""
        return _draws(self.tensors)


def film_of(path: Path) -> Film:
    """The film of a golden file."""
    tensors, case = files.tensors(path), files.entry(path, "meta")["case"]
    frames = tensors["input.frames_thwc_0_1"].movedim(-1, 1)
    options = ReferenceOptions(**{ours: case[name] for name, ours in _OPTIONS.items()})
    return Film(tensors, frames, options, case["kind"])


@torch.inference_mode()
def check_pipeline(path: Path) -> Iterator[Outcome]:
    """Every stage of every batch, with every form of the models."""
    film = film_of(path)
    tensors, frames, options = film.tensors, film.frames, film.options
    if "input.frames_after_prepend_thwc" in tensors:
        longer = frames[mirrored_indices_before(len(frames), options.prepend)].movedim(1, -1)
        wanted = tensors["input.frames_after_prepend_thwc"]
        yield compared(f"{path.name} frames after prepending", longer, wanted, EXACT_LIMIT)
    for form in FORMS:
        models = Models(
            vae=load_vae(files.weights_of(path, "vae"), form=form),
            dit=load_dit(files.weights_of(path, film.kind), form=form),
            text=tensors["input.text_embedding"],
        )
        models.vae.enable_slicing()
        found: dict[str, Tensor] = {}
        final = upscale_as_reference(
            frames, models, options, draw=film.draw(), trace=partial(_keep, found)
        )
        for name, wanted in tensors.items():
            if any(part in name for part in _GIVEN):
                continue
            if name != "final_thwc_0_1":
                outcomes = _compared_stage(name, found, wanted)
            elif options.colour in _RANKED:
                theirs = tensors["assembled_thwc_before_postprocess"].movedim(-1, 1)
                outcomes = _compared_ranks(options, (final, found["source"], theirs), wanted)
            else:
                outcomes = iter([compared("final", final.movedim(1, -1), wanted, FRAME_LIMIT)])
            for outcome in outcomes:
                yield replace(outcome, case=f"{path.name} {outcome.case} [{form}]")


def _compared_ranks(
    options: ReferenceOptions, frames: tuple[Tensor, Tensor, Tensor], wanted: Tensor
) -> Iterator[Outcome]:
    """Colours by rank: strictly for frames that equal theirs, on average for our own.

    One pixel that changes its hue bin or its rank moves all that follow. An error of 3e-6,
    the one of decoding in float32, already makes differences of 0.35 in single pixels.
    """
    final, source, theirs = frames
    spans = batches(len(theirs), options)
    again = coloured(theirs, source, spans, options.colour)[options.prepend :].movedim(1, -1)
    yield from compared_ranked("final of their frames", again, wanted)
    mean = float((final.movedim(1, -1) - wanted).abs().mean())
    yield Outcome(case="final mean", error=mean, limit=RANKED_MEAN_LIMIT)


def _compared_stage(name: str, found: Mapping[str, Tensor], wanted: Tensor) -> Iterator[Outcome]:
    batch, _, stage = name.rpartition(".")
    if stage not in _STAGES:
        yield Outcome(case=name, problem="unknown tensor")
        return
    ours, limit = _STAGES[stage]
    value = found[f"{batch}.{ours}" if batch else ours]
    if "cthw" in stage:
        value = value.movedim(1, 0)
        value = value.squeeze(1) if value.shape[1] == 1 and wanted.ndim == 3 else value
    elif "assembled" in stage:
        value = value.movedim(1, -1)
    yield compared(name, value, wanted, limit)


def _draws(tensors: Mapping[str, Tensor]) -> Callable[[int], Draw]:
    """Our noise in the published order; that for frames comes from the file, where it has some."""
    batches = count()

    def of_batch(seed: int) -> Draw:
        usual = reference_draw(seed)
        given = tensors.get(f"batch{next(batches)}.input_noise_randn_cthw")

        def draw(kind: str, shape: tuple[int, ...]) -> Tensor:
            if kind == "frames" and given is not None:
                return given.movedim(0, 1)
            return usual(kind, shape)

        return draw

    return of_batch


def _keep(found: dict[str, Tensor], name: str, value: Tensor) -> None:
    """Keep what a stage gave, and what follows from it."""
    found[name] = value.clone()
    batch, _, stage = name.rpartition(".")
    if stage == "condition":
        found[f"{batch}.input"] = torch.cat((found[f"{batch}.noise"], value), dim=-1)
    elif stage == "result":
        found[f"{batch}.prediction"] = found[f"{batch}.noise"] - value
