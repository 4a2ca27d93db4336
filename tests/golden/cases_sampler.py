"""The SeedVR2 sampler: time steps, condition, several steps, guidance, the shifted time step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from engine.models.seedvr2.dit.load import FORMS, load_dit
from engine.models.seedvr2.sampler import condition, shifted_timestep
from tests.golden import files
from tests.golden.outcome import Outcome, compared
from tests.reference.sampler import Guidance, sample_in_steps, timesteps

LIMIT = 2e-4  # of latents; the README of the golden files suggests it
TIME_LIMIT = 1e-3  # of time steps up to 1000, kept in float32
_SETTING = re.compile(r"steps(\d+)_cfg(\d+\.\d+)_rescale(\d+\.\d+)")


@torch.inference_mode()
def check_samples(path: Path) -> Iterator[Outcome]:
    """Every setting that is named in the file, with every form of the transformer.

    The file's name ends with the kind of transformer: sampler_dit3b.safetensors.
    """
    tensors = files.tensors(path)
    source = tensors["lr_latent"]
    yield compared(f"{path.name} condition", condition(source), tensors["condition"], LIMIT)
    kind = path.stem.partition("_")[2]
    weights = next(iter(sorted(path.parent.glob(f"{kind}*_{files.WEIGHTS}"))))
    settings = {m[0]: m for name in tensors if (m := _SETTING.match(name))}
    for name, told in settings.items():
        wanted = tensors[f"{name}.timesteps"]
        found = torch.tensor(timesteps(int(told[1])))
        yield compared(f"{path.name} {name}.timesteps", found, wanted, TIME_LIMIT)
    for form in FORMS:
        dit = load_dit(weights, form=form)
        for name, told in settings.items():
            guidance = Guidance(tensors["text_neg"], float(told[2]), float(told[3]))
            result = sample_in_steps(
                dit,
                tensors["noise"],
                tensors["condition"],
                tensors["text_pos"],
                steps=int(told[1]),
                guidance=guidance if guidance.scale != 1 else None,
            )
            yield compared(f"{path.name} {name} [{form}]", result, tensors[f"{name}.out"], LIMIT)


def check_shift(path: Path) -> Iterator[Outcome]:
    """How far a time step moves for clips of each size."""
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        found = shifted_timestep(row["t_in"], tuple(row["latent_shape_THW"]))
        case = f"{path.name} {row['latent_shape_THW']} {row['t_in']:g}"
        yield Outcome(case=case, error=abs(found - row["t_out"]), limit=TIME_LIMIT)
