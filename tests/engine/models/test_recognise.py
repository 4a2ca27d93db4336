from __future__ import annotations

import pytest

from engine.models.recognise import recognise

SHAPES = {
    "a SeedVR2 VAE": {"encoder.down_blocks.0.resnets.0.conv1.weight": (8, 8, 3, 3, 3)},
    "a VAE for single pictures": {"encoder.down_blocks.0.resnets.0.conv1.weight": (8, 8, 3, 3)},
    "a SeedVR2 transformer (3B)": {
        "blocks.0.attn.proj_qkv.vid.weight": (96, 32),
        "blocks.9.attn.proj_qkv.all.weight": (96, 32),
    },
    "a SeedVR2 transformer (7B)": {"blocks.9.attn.proj_qkv.txt.weight": (96, 32)},
    "a Wan VAE": {"decoder.upsamples.0.residual.0.gamma": (8, 1, 1, 1)},
    "Lite": {"convolutions.0.weight": (8, 3, 3, 3), "convolutions.0.bias": (8,)},
    "a text embedding": {"embedding": (58, 5120)},
    "": {"something.else": (1,)},
}


@pytest.mark.parametrize("what", SHAPES)
def test_models_are_known_by_their_tensors(what: str) -> None:
    assert recognise(SHAPES[what]) == what


def test_a_prefix_of_other_programs_does_not_hide_a_transformer() -> None:
    shapes = {
        f"model.diffusion_model.{n}": s for n, s in SHAPES["a SeedVR2 transformer (3B)"].items()
    }
    assert recognise(shapes) == "a SeedVR2 transformer (3B)"


def test_one_flat_kernel_does_not_make_a_vae_one_for_pictures() -> None:
    names = [f"encoder.down_blocks.{i}.resnets.0.conv1.weight" for i in range(3)]
    shapes: dict[str, tuple[int, ...]] = {name: (8, 8, 3, 3, 3) for name in names}
    assert recognise(shapes | {names[0]: (8, 8, 3, 3)}) == "a SeedVR2 VAE"


def test_nothing_is_nothing() -> None:
    assert recognise({}) == ""
