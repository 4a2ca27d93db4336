"""The SeedVR2 transformer: strict names, predictions, every block, windows, embeddings, sampler.

A file of cases has for each of them `X.vid_in`, `X.txt_in`, `X.vid_shape`, `X.timestep` and what
comes of it, `X.out`. A case without inputs takes those of the case that its name begins with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.models.load import FORMS
from engine.models.seedvr2.dit.config import (
    DIT_3B,
    DIT_7B,
    DIT_KEYS,
    DitConfig,
    infer_dit_config,
    windows,
)
from engine.models.seedvr2.dit.load import load_dit
from engine.models.seedvr2.dit.plain import SeedVr2Dit, picture_angles, text_angles
from engine.models.seedvr2.sampler import condition, shifted_timestep
from engine.ops.attention.rope import (
    geometric_frequencies,
    linear_frequencies,
    rotate,
    sinusoids,
)
from tests.golden import files
from tests.golden.outcome import Outcome, compared, compared_names, right, traced_blocks
from tests.reference.sampler import Guidance, sample_in_steps, timesteps

LIMIT = 1e-4  # largest absolute difference in float32; the README of the golden files suggests it
LATENT_LIMIT = 2e-4
TIME_LIMIT = 1e-3  # of time steps up to 1000, kept in float32
ANGLE_LIMIT = 1e-5  # of frequencies, angles, sines and cosines
# Rounding of float32 for each unit of an angle, which processors of two makers do differently. The
# angles of the time step go up to 1000: the file itself is 5.7e-5 from float64 there.
ROUNDING = 2.0**-24
_PARTS = ("vid_in", "txt_in", "vid_shape", "timestep", "out")  # of a case
_SETTING = re.compile(r"steps(\d+)_cfg(\d+\.\d+)_rescale(\d+\.\d+)")
_NOTE = re.compile(r"T,H,W = (\d+),(\d+),(\d+) .*timestep ([\d.]+)")


def check_manifest(path: Path) -> Iterator[Outcome]:
    """A list of names and shapes equals our module's, without reading any values."""
    manifest = json.loads(path.read_text("utf-8"))
    shapes = {name: tuple(shape) for name, shape in manifest["state_dict"].items()}
    wanted = {ours: shapes[name] for ours, name in DIT_KEYS.published(shapes).items()}
    with torch.device("meta"):
        dit = SeedVr2Dit(infer_dit_config(shapes, {"config": json.dumps(manifest["config"])}))
    yield from compared_names(path, dit, wanted, manifest["total_parameters"])


def check_weights(path: Path) -> Iterator[Outcome]:
    """A file of weights loads strictly."""
    for form in FORMS:
        load_dit(path, form=form)
        yield Outcome(case=f"{path.name} loads [{form}]")


@torch.inference_mode()
def check_cases(path: Path) -> Iterator[Outcome]:
    """Every prediction of a file, with every form."""
    tensors = files.tensors(path)
    tags = [name.removesuffix(".out") for name in tensors if name.endswith(".out")]
    for name in tensors:
        if name.rpartition(".")[2] not in _PARTS:
            yield Outcome(case=f"{path.name} {name}", problem="unknown tensor")
    for form in FORMS:
        dit = load_dit(files.weights_next_to(path, "dit"), form=form)
        for tag in tags:
            shape = [int(side) for side in tensors[f"{tag}.vid_shape"].flatten()]
            latent, text = (_input(tensors, tag, name) for name in ("vid_in", "txt_in"))
            found = dit(latent.view(*shape, -1), text, float(tensors[f"{tag}.timestep"]))
            case = f"{path.name} {tag} [{form}]"
            yield compared(case, found.flatten(0, 2), tensors[f"{tag}.out"], LIMIT)


def _input(tensors: Mapping[str, Tensor], tag: str, name: str) -> Tensor:
    owners = [key.rpartition(".")[0] for key in tensors if key.endswith(f".{name}")]
    return tensors[f"{max((o for o in owners if tag.startswith(o)), key=len)}.{name}"]


@torch.inference_mode()
def check_blocks(path: Path) -> Iterator[Outcome]:
    """The result of every block; a form that shows some of them only must be right in these."""
    tensors = files.tensors(path)
    match = _NOTE.search(files.metadata(path)["note"])
    assert match is not None, "the note states no shape of the latent"
    shape = [int(side) for side in match.groups()[:3]]
    latent = tensors.pop("input.vid").view(*shape, -1)
    text = tensors.pop("input.txt")
    for form in FORMS:
        dit = load_dit(files.weights_next_to(path, "dit"), form=form)
        found: dict[str, Tensor] = {}
        with traced_blocks(dit, found):
            found["output"] = dit(latent, text, float(match[4]))
        for name in tensors:
            case = f"{path.name} {name} [{form}]"
            if name in _unused(dit.config):
                continue
            if name in found:
                yield compared(case, found[name].reshape(tensors[name].shape), tensors[name], LIMIT)
            elif form == "plain":
                yield Outcome(case=case, problem="no block of this name ran")


def _unused(config: DitConfig) -> tuple[str, ...]:
    """Where the text ends early the last block's text output is not used."""
    return (f"blocks.{config.layers - 1}.txt",) if config.text_ends_early else ()


def check_windows(path: Path) -> Iterator[Outcome]:
    """All windows, in the same order; each token is in one of them."""
    for row in json.loads(path.read_text("utf-8")):
        grid, counts, method = row["size_thw_tokens"], row["num_windows"], row["method"]
        found = windows(tuple(grid), tuple(counts), shifted="swin" in method)
        edges = [[w.t0, w.t1, w.h0, w.h1, w.w0, w.w1] for w in found]
        yield right(f"{path.name} {grid} {method}", edges == row["windows_t0_t1_h0_h1_w0_w1"])


def check_embeddings(path: Path) -> Iterator[Outcome]:
    """Time steps and rotary embeddings at their full size."""
    tensors, note = files.tensors(path), files.entry(path, "note")
    shape, length = tuple(note["window_shape_thw"]), note["text_len"]
    thin = tuple(note["rope7b.vid_angles_size1axes"])
    counted, spread = (picture_angles(config, shape, length) for config in (DIT_3B, DIT_7B))
    text = text_angles(DIT_3B, length)
    assert text is not None
    queries, words = tensors.pop("rope3b.q_in"), tensors.pop("rope3b.txt_q_in")
    times = tensors.pop("timesteps").tolist()
    found = {
        "rope3b.freqs_128": geometric_frequencies(128),
        "rope3b.vid_angles": _paired(counted),
        "rope3b.txt_angles": _paired(text),
        "rope3b.q_out": rotate(queries, counted),
        "rope3b.txt_q_out": rotate(words, text),
        "rope7b.freqs_64": linear_frequencies(64),
        "rope7b.vid_angles": _paired(spread),
        "rope7b.vid_angles_size1axes": _paired(picture_angles(DIT_7B, thin, length)),
        "rope7b.q_out": rotate(queries, spread),
    }
    rows = tensors.pop("sinusoidal_256")
    yield max(
        (
            compared(f"{path.name} sinusoidal_256", sinusoids(time, 256), row, limit)
            for time, row in zip(times, rows, strict=True)
            for limit in [ANGLE_LIMIT + time * ROUNDING]
        ),
        key=lambda row: (not row.passed, row.error),
    )
    for name, wanted in tensors.items():
        yield compared(f"{path.name} {name}", found[name], wanted, ANGLE_LIMIT)


def _paired(angles: Tensor) -> Tensor:
    """Two neighbouring channels turn by the same angle; the files have it twice."""
    return angles.repeat_interleave(2, -1)


@torch.inference_mode()
def check_samples(path: Path) -> Iterator[Outcome]:
    """Every setting that is named in the file, with every form of the transformer.

    The file's name ends with the kind of transformer: sampler_dit3b.safetensors.
    """
    tensors = files.tensors(path)
    source = tensors["lr_latent"]
    yield compared(f"{path.name} condition", condition(source), tensors["condition"], LATENT_LIMIT)
    kind = path.stem.partition("_")[2]
    weights = files.weights_of(path, kind)
    settings = {m[0]: m for name in tensors if (m := _SETTING.match(name))}
    for name, match in settings.items():
        wanted = tensors[f"{name}.timesteps"]
        found = torch.tensor(timesteps(int(match[1])))
        yield compared(f"{path.name} {name}.timesteps", found, wanted, TIME_LIMIT)
    for form in FORMS:
        dit = load_dit(weights, form=form)
        for name, match in settings.items():
            guidance = Guidance(tensors["text_neg"], float(match[2]), float(match[3]))
            inputs = (tensors[kind] for kind in ("noise", "condition", "text_pos"))
            guidance = guidance if guidance.scale != 1 else None
            result = sample_in_steps(dit, *inputs, steps=int(match[1]), guidance=guidance)
            case = f"{path.name} {name} [{form}]"
            yield compared(case, result, tensors[f"{name}.out"], LATENT_LIMIT)


def check_shift(path: Path) -> Iterator[Outcome]:
    """How far a time step moves for clips of each size."""
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        found = shifted_timestep(row["t_in"], tuple(row["latent_shape_THW"]))
        case = f"{path.name} {row['latent_shape_THW']} {row['t_in']:g}"
        yield Outcome(case=case, error=abs(found - row["t_out"]), limit=TIME_LIMIT)
