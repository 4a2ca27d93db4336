"""Configuration from the names and shapes of a file."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from engine.core.errors import UnknownKeys
from engine.models.seedvr2.vae.config import VAE, Shapes, VaeConfig, infer_vae_config
from engine.models.seedvr2.vae.plain import SeedVr2Vae

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"


def published_shapes() -> dict[str, tuple[int, ...]]:
    manifest = json.loads((GOLDEN / "manifest_vae.json").read_text("utf-8"))
    return {name: tuple(shape) for name, shape in manifest["state_dict"].items()}


def shapes_of(config: VaeConfig) -> Shapes:
    with torch.device("meta"):
        vae = SeedVr2Vae(config)
    return {name: tuple(value.shape) for name, value in vae.state_dict().items()}


def metadata_of(config: VaeConfig) -> dict[str, str]:
    sizes = {"norm_num_groups": config.norm_groups, "slicing_sample_min_size": config.slice_frames}
    return {"config": json.dumps({"constructor": sizes})}


def test_published_file() -> None:
    assert infer_vae_config(published_shapes(), {}) == VAE
    assert (VAE.spatial_factor, VAE.temporal_factor, VAE.slice_latents) == (8, 4, 1)


def test_golden_file_has_its_sizes_in_the_metadata() -> None:
    with safe_open(GOLDEN / "vae_tiny_weights.safetensors", framework="pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}
        config = infer_vae_config(shapes, file.metadata())
    assert config == VaeConfig(
        block_out_channels=(12, 16, 24, 32), layers_per_block=1, norm_groups=4
    )


def test_other_sizes() -> None:
    for levels, layers in product((1, 2, 3, 4, 5), (1, 3)):
        steps = levels - 1
        for halvings in range(min(levels, 4)):
            time = tuple(step >= steps - halvings for step in range(steps))
            config = VaeConfig(
                block_out_channels=tuple(8 * (level + 1) for level in range(levels)),
                layers_per_block=layers,
                latent_channels=4 * levels,
                norm_groups=2 if levels % 2 else 4,
                encoder_time=time,
                decoder_time=time[::-1],
                quant_conv=layers == 1,
                post_quant_conv=layers == 3,
                slice_frames=8,
            )
            assert infer_vae_config(shapes_of(config), metadata_of(config)) == config


def test_sizes_may_lie_directly_in_the_metadata_and_strange_ones_are_passed_over() -> None:
    sizes = {"norm_num_groups": 16, "slicing_sample_min_size": 12}
    found = infer_vae_config(published_shapes(), {"config": json.dumps(sizes)})
    assert found == VaeConfig(norm_groups=16, slice_frames=12)
    for text in ("{", "[]", '{"norm_num_groups": "many"}'):
        assert infer_vae_config(published_shapes(), {"config": text}) == VAE, text


def test_hardly_any_missing_or_misshapen_tensor_changes_the_picture() -> None:
    shapes, changed = published_shapes(), set()
    for name, shape in shapes.items():
        others = {key: shape for key, shape in shapes.items() if key != name}
        assert infer_vae_config(others, {}) == VAE, name
        if infer_vae_config({**shapes, name: (7,) * len(shape)}, {}) != VAE:
            changed.add(name)
    assert changed == {"encoder.conv_in.weight", "decoder.conv_out.weight"}  # colours


def test_other_models_and_impossible_sizes_are_refused() -> None:
    for names in ({}, {"blocks.0.attn.proj_qkv.vid.weight": (7680, 2560)}, {"encoder.x": (1,)}):
        with pytest.raises(UnknownKeys, match="SeedVR2 VAE"):
            infer_vae_config(names, {})
    with pytest.raises(UnknownKeys, match="do not match"):
        infer_vae_config(published_shapes(), {"config": '{"norm_num_groups": 48}'})
    for sizes in (
        {"encoder_time": (True, True)},
        {"encoder_time": (True, True, True)},
        {"block_out_channels": (128, 200, 512, 512)},
    ):
        with pytest.raises(ValueError, match=r"level|time|groups"):
            VaeConfig(**sizes)
