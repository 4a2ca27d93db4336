"""What is written down about the Wan VAEs: names, sizes, statistics; and latents of ComfyUI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from engine.files.catalogue import catalogue
from engine.models.identify import WAN2X_VAE, WAN21_VAE, WAN22_VAE, recognise
from engine.models.load import FORMS
from engine.models.wan.latents.file import LatentFile
from engine.models.wan.latents.spaces import MODELS, LatentSpace, normalised
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.keymap import wan_keys
from engine.models.wan.vae.load import load_wan
from engine.models.wan.vae.plain import WanVae
from tests.golden import files
from tests.golden.cases_wan import LIMITS, PUBLISHED, RECIPES
from tests.golden.outcome import Outcome, compared, right

Shapes = dict[str, tuple[int, ...]]

NOISE = 4.0  # rounding in float32, at most so many times that of the reference
STATED = 1e-3  # statistics are written down with four digits
_WORDS = {"wan21": WAN21_VAE, "wan22": WAN22_VAE, "wan21_upscale2x": WAN2X_VAE}


def check_keymap(path: Path) -> Iterator[Outcome]:
    """The rules give the table of diffusers' names, one to one, and their model."""
    table: dict[str, str] = json.loads(path.read_text("utf-8"))["table"]
    model = path.stem.removeprefix("diffusers_keymap_")
    shapes = _shapes(PUBLISHED[model])
    for prefix in ("", "vae."):
        names = [prefix + name for name in table]
        found = wan_keys(names).published(names)
        wanted = {ours: prefix + name for name, ours in table.items()}
        yield right(f"{path.name} names [{prefix or 'no prefix'}]", found == wanted)
        theirs = {prefix + name: shapes[ours] for name, ours in table.items()}
        yield right(f"{path.name} model [{prefix}]", recognise(theirs) == _WORDS[model])
    yield right(f"{path.name} whole", set(table.values()) == set(shapes))


def check_statistics(path: Path) -> Iterator[Outcome]:
    """Mean and deviation of the latents are those that the engine divides by."""
    for model, facts in json.loads(path.read_text("utf-8")).items():
        if model == "note":
            continue
        space: LatentSpace = MODELS[f"{model}-vae"]
        yield right(f"{path.name} {model} channels", space.channels == facts["z_dim"])
        yield right(f"{path.name} {model} mean", list(space.mean) == facts["mean"])
        yield right(f"{path.name} {model} std", list(space.std) == facts["std"])


def check_checkpoints(path: Path) -> Iterator[Outcome]:
    """Counts of parameters, names that tell the layouts apart, and sizes of published files."""
    about = json.loads(path.read_text("utf-8"))
    entries = {entry.sha256: entry for entry in catalogue().files}
    for model, config in PUBLISHED.items():
        shapes = _shapes(config)
        count = sum(torch.Size(shape).numel() for shape in shapes.values())
        yield right(f"{path.name} {model} parameters", count == about[model]["param_count"])
        yield right(f"{path.name} {model} recognised", recognise(shapes) == _WORDS[model])
        for facts in about[model]["files"]:
            entry = entries.get(str(facts.get("sha256")))
            if entry is not None and isinstance(facts.get("bytes"), int):
                case = f"{path.name} {model} bytes of {entry.filename}"
                yield right(case, entry.bytes == facts["bytes"])
    yield from _check_rules(path.name, about["detection"])


def check_facts(path: Path) -> Iterator[Outcome]:
    """Shapes and statistics of the cases, and the engine's rounding against the reference's.

    A case whose file is missing is left out; one at least must be there.
    """
    about = json.loads(path.read_text("utf-8"))
    for model in ("wan21_tiny", "wan22_tiny"):
        for case, facts in about[model]["cases"].items():
            file = path.parent / facts["file"]
            if file.is_file():
                yield from _check_case(f"{path.name} {case}", file, facts)


@torch.inference_mode()
def check_latent(path: Path) -> Iterator[Outcome]:
    """A latent of ComfyUI is read, normalised and decoded as the file of results has it."""
    results = files.tensors(path.parent / "comfyui_latent_expected.safetensors")
    with LatentFile(path) as file:
        latent = file.latents(0, file.header.length).unsqueeze(0)
        model = file.header.model.removesuffix("-vae")
        is_scaled = file.scale != 1
    yield right(f"{path.name} marker", is_scaled == ("nomarker" in path.name))
    wanted = results[f"{model}.normalized"]
    yield compared(f"{path.name} normalised", normalised(latent), wanted, LIMITS["plain"])
    weights = path.parent / f"{model}_tiny_{files.WEIGHTS}"
    for form in FORMS:
        found = load_wan(weights, form=form).decode(latent)
        case = f"{path.name} decoded [{form}]"
        yield compared(case, found, results[f"{model}.decoded"], LIMITS[form])


def check_expected_latents(path: Path) -> Iterator[Outcome]:
    """Its tensors belong to latents next to it, which `check_latent` compares with."""
    for name in files.tensors(path):
        model = name.partition(".")[0]
        latents = sorted(path.parent.glob(f"comfyui_{model}_*.latent"))
        yield right(f"{path.name} {name}", bool(latents))


def _check_rules(file: str, detection: Mapping[str, str]) -> Iterator[Outcome]:
    """The rules quote names; those that decide must be in the models that the rules name."""
    shapes = {model: _shapes(config) for model, config in PUBLISHED.items()}
    family = _quoted(detection["wan family"])
    yield right(f"{file} family", all(family in names for names in shapes.values()))
    nested = _quoted(detection["wan22 vs wan21"])
    having = [model for model, names in shapes.items() if nested in names]
    yield right(f"{file} 2.2 or 2.1", having == ["wan22"])
    values = {"z_dim": "latent_channels", "encoder dim": "dim", "decoder dim": "dec_dim"}
    for what, value in values.items():
        match = re.fullmatch(r"(\S+)\.shape\[(\d)\]", detection[what])
        is_right = match is not None and all(
            shapes[model][match[1]][int(match[2])] == getattr(config, value)
            for model, config in PUBLISHED.items()
        )
        yield right(f"{file} {what}", is_right)


def _check_case(case: str, path: Path, facts: Mapping[str, Any]) -> Iterator[Outcome]:
    tensors = files.tensors(path)
    shapes = [list(tensors[name].shape) for name in ("x", "z", "mu")]
    latent = facts["latent_shape"]
    yield right(f"{case} shapes", shapes == [facts["x_shape"], latent, latent])
    for name, deviation in facts["std"].items():
        error = abs(float(tensors[name].std()) - deviation)
        yield Outcome(case=f"{case} deviation of {name}", error=error, limit=STATED)
    weights = files.weights_next_to(path, "wan")
    exact = load_wan(weights, form="plain", dtype=torch.float64)
    rounded = load_wan(weights, form="plain")
    wide = {name: value.double() for name, value in tensors.items()}
    for name in ("mu", "dec_raw"):
        floor = facts["noise_floor"]["fp32_vs_fp64"][name]["max_abs"]
        found, wanted = RECIPES[name](rounded, tensors), RECIPES[name](exact, wide)
        yield compared(f"{case} rounding of {name}", found, wanted, NOISE * floor)


def _quoted(rule: str) -> str:
    return rule.split("'")[1]


def _shapes(config: WanConfig) -> Shapes:
    with torch.device("meta"):
        vae = WanVae(config)
    return {name: tuple(value.shape) for name, value in vae.state_dict().items()}
