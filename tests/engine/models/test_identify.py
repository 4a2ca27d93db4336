from __future__ import annotations

import pytest

from engine.core.messages import text_of
from engine.models.identify import content_message, recognise

SHAPES = {
    "seedvr2-vae": {"encoder.down_blocks.0.resnets.0.conv1.weight": (8, 8, 3, 3, 3)},
    "picture-vae": {"encoder.down_blocks.0.resnets.0.conv1.weight": (8, 8, 3, 3)},
    "seedvr2-3b": {
        "blocks.0.attn.proj_qkv.vid.weight": (96, 32),
        "blocks.9.attn.proj_qkv.all.weight": (96, 32),
    },
    "seedvr2-7b": {"blocks.9.attn.proj_qkv.txt.weight": (96, 32)},
    "wan21-vae": {"decoder.upsamples.0.residual.0.gamma": (8, 1, 1, 1)},
    "lite": {"convolutions.0.weight": (8, 3, 3, 3), "convolutions.0.bias": (8,)},
    "text-embedding": {"embedding": (58, 5120)},
    "": {"something.else": (1,)},
}


@pytest.mark.parametrize("what", SHAPES)
def test_models_are_known_by_their_tensors(what: str) -> None:
    assert recognise(SHAPES[what]) == what
    assert text_of(content_message(what)) != text_of(content_message(what), "zh_CN")


def test_a_prefix_of_other_programs_does_not_hide_a_transformer() -> None:
    shapes = {f"model.diffusion_model.{n}": s for n, s in SHAPES["seedvr2-3b"].items()}
    assert recognise(shapes) == "seedvr2-3b"


def test_one_flat_kernel_does_not_make_a_vae_one_for_pictures() -> None:
    names = [f"encoder.down_blocks.{i}.resnets.0.conv1.weight" for i in range(3)]
    shapes: dict[str, tuple[int, ...]] = {name: (8, 8, 3, 3, 3) for name in names}
    assert recognise(shapes | {names[0]: (8, 8, 3, 3)}) == "seedvr2-vae"


def test_nothing_is_nothing() -> None:
    assert recognise({}) == ""


@pytest.mark.parametrize("prefix", ["", "vae.", "model.", "first_stage_model.", "model.vae."])
def test_the_wan_vaes_are_told_apart_in_every_layout(prefix: str) -> None:
    heads = {"2.1": 3, "2.2": 12, "2x": 12}
    parts = {
        "wan": {
            "2.1": "decoder.upsamples.3.resample.1.weight",
            "2.2": "decoder.upsamples.0.upsamples.3.resample.1.weight",
        },
        "diffusers": {
            "2.1": "decoder.up_blocks.0.upsamplers.0.resample.1.weight",
            "2.2": "decoder.up_blocks.0.upsampler.resample.1.weight",
        },
    }
    for layout, head in (
        ("wan", "decoder.head.2.weight"),
        ("diffusers", "decoder.conv_out.weight"),
    ):
        for model, channels in heads.items():
            names = (parts[layout].get(model, parts[layout]["2.1"]), "decoder.middle.0.gamma")
            shapes: dict[str, tuple[int, ...]] = {prefix + name: (8, 8, 3, 3) for name in names}
            shapes[prefix + head] = (channels, 8, 3, 3, 3)
            assert str(content_message(recognise(shapes))) == f"a Wan {model} VAE"


def test_a_vae_inside_a_checkpoint_of_pictures_is_known_by_its_prefix() -> None:
    assert recognise({"first_stage_model.encoder.down.0.block.0.conv1.weight": (8, 8, 3, 3)}) == (
        "picture-vae"
    )
