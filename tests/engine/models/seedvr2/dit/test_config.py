"""Configuration of the transformer from the names and shapes of a file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from engine.core.errors import UnknownKeys
from engine.models.load import shapes_of
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DIT_KEYS, DitConfig, infer_dit_config
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.shapes import Shapes
from tests.helpers.seedvr2 import tiny_dit_config

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
PUBLISHED = {"3b": DIT_3B, "7b": DIT_7B}


def manifest(kind: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"manifest_dit_{kind}.json").read_text("utf-8"))


def published_shapes(kind: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape in manifest(kind)["state_dict"].items()}


def shapes_for(config: DitConfig) -> Shapes:
    with torch.device("meta"):
        return shapes_of(SeedVr2Dit(config))


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_files(kind: str) -> None:
    about, shapes = manifest(kind), published_shapes(kind)
    assert infer_dit_config(shapes, {}) == PUBLISHED[kind]
    assert infer_dit_config(shapes, {"config": json.dumps(about["config"])}) == PUBLISHED[kind]
    ours = {name: shapes[there] for name, there in DIT_KEYS.published(shapes).items()}
    assert shapes_for(PUBLISHED[kind]) == ours
    assert sum(map(math.prod, ours.values())) == about["total_parameters"]
    prefixed = {
        f"model.diffusion_model.{name}": shape
        for name, shape in shapes.items()
        if "rope" not in name
    }
    assert infer_dit_config(prefixed, {}) == PUBLISHED[kind]


@pytest.mark.parametrize("kind", PUBLISHED)
def test_golden_files(kind: str) -> None:
    with safe_open(GOLDEN / f"dit{kind}_tiny_weights.safetensors", framework="pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}
        found = infer_dit_config(shapes, file.metadata())
    small = {"dim": 64, "text_in_dim": 40, "heads": 2, "head_dim": 32, "mlp_hidden": 256}
    layers = {"layers": 6, "separate_layers": 3 if kind == "3b" else 6}
    rope = {"rope_dim": 32 if kind == "3b" else 16}
    assert found == replace(PUBLISHED[kind], **small, **layers, **rope)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_other_sizes(kind: str) -> None:
    for layers, heads, separate in product((1, 2, 5), (1, 3), (0, 1, 99)):
        config = tiny_dit_config(
            kind,
            layers=layers,
            heads=heads,
            separate_layers=min(separate, layers),
            in_channels=2 * heads + 1,
            out_channels=heads,
            dim=8 * heads,
            text_in_dim=layers + 3,
            mlp_hidden=5 * layers,
            time_features=2 * layers,
        )
        assert infer_dit_config(shapes_for(config), {}) == config


def test_metadata_tell_what_shapes_do_not() -> None:
    metadata = {"norm_eps": 1e-6, "window": [[2, 1, 5]] * 32}
    wanted = replace(DIT_3B, norm_eps=1e-6, window=(2, 1, 5))
    for config in (metadata, metadata | {"window": [2, 1, 5]}, {"constructor": metadata}):
        found = infer_dit_config(published_shapes("3b"), {"config": json.dumps(config)})
        assert found == wanted
    for strange in ("{", '{"window": 3}', '{"window": [], "norm_eps": 2}', '{"window": [[1]]}'):
        assert infer_dit_config(published_shapes("7b"), {"config": strange}) == DIT_7B, strange


@pytest.mark.parametrize("kind", PUBLISHED)
def test_hardly_any_missing_or_misshapen_tensor_changes_the_picture(kind: str) -> None:
    config = tiny_dit_config(kind, in_channels=33, text_in_dim=5120, out_channels=16)
    shapes, changed = dict(shapes_for(config)), set()
    for name, shape in shapes.items():
        others = {key: shape for key, shape in shapes.items() if key != name}
        assert infer_dit_config(others, {}) == config, name
        if infer_dit_config({**shapes, name: (7,) * len(shape)}, {}) != config:
            changed.add(name)
    ends = {"vid_in.proj.weight", "vid_out.proj.weight", "txt_in.weight", "emb_in.proj_in.weight"}
    assert changed == ends  # no other tensor repeats these sizes


def test_other_models_and_impossible_sizes_are_refused() -> None:
    for names in ({}, {"encoder.conv_in.weight": (1,)}, {"blocks.0.attn.q.weight": (1, 1)}):
        with pytest.raises(UnknownKeys, match="SeedVR2 transformer"):
            infer_dit_config(names, {})
    shapes = dict(published_shapes("3b"))
    narrow = {name: (97,) for name in shapes if ".norm_q." in name or ".norm_k." in name}
    with pytest.raises(UnknownKeys, match="do not match"):
        infer_dit_config({**shapes, **narrow}, {})
    wrong = ({"separate_layers": 33}, {"rope_dim": 129}, {"heads": 0}, {"window": (4, 0, 3)})
    for sizes in wrong:
        with pytest.raises(ValueError, match=r"size|separate|rope"):
            DitConfig(**sizes)
