from __future__ import annotations

import pytest

from engine.core.messages import text_of
from engine.models.identify import content_message, recognise

CONV, FLAT = (8, 8, 3, 3, 3), (8, 8, 3, 3)
RESNET = "encoder.down_blocks.{}.resnets.0.conv1.weight"
SHAPES: list[tuple[str, dict[str, tuple[int, ...]]]] = [
    ("seedvr2-vae", {RESNET.format(0): CONV}),
    ("seedvr2-vae", {RESNET.format(0): FLAT, RESNET.format(1): CONV, RESNET.format(2): CONV}),
    ("picture-vae", {RESNET.format(0): FLAT}),
    ("picture-vae", {"first_stage_model.encoder.down.0.block.0.conv1.weight": FLAT}),
    (
        "seedvr2-3b",
        {
            "blocks.0.attn.proj_qkv.vid.weight": (96, 32),
            "blocks.9.attn.proj_qkv.all.weight": (96, 32),
        },
    ),
    ("seedvr2-3b", {"model.diffusion_model.blocks.9.attn.proj_qkv.all.weight": (96, 32)}),
    ("seedvr2-7b", {"blocks.9.attn.proj_qkv.txt.weight": (96, 32)}),
    ("wan21-vae", {"decoder.upsamples.0.residual.0.gamma": (8, 1, 1, 1)}),
    ("lite", {"convolutions.0.weight": (8, 3, 3, 3), "convolutions.0.bias": (8,)}),
    ("text-embedding", {"embedding": (58, 5120)}),
    ("swiftvr-vae", {"decoder.16.conv.2.bias": (8,)}),
    ("swiftvr-transformer", {"blocks.3.attn1.to_q.weight": (8, 8)}),
    ("swiftvr-prompt", {"prompt_emb": (1, 9, 40), "attention_mask": (1, 9)}),
    ("", {"something.else": (1,)}),
    ("", {}),
]


def test_models_are_known_by_their_tensors() -> None:
    for what, shapes in SHAPES:
        assert recognise(shapes) == what, shapes
        assert text_of(content_message(what)) != text_of(content_message(what), "zh_CN")


@pytest.mark.parametrize("prefix", ["", "vae.", "model.", "first_stage_model.", "model.vae."])
def test_the_wan_vaes_are_told_apart_in_every_layout(prefix: str) -> None:
    usual = "decoder.upsamples.3.resample.1.weight"
    deeper = "decoder.upsamples.0.upsamples.3.resample.1.weight"
    theirs = "decoder.up_blocks.0.upsamplers.0.resample.1.weight"
    theirs_deeper = "decoder.up_blocks.0.upsampler.resample.1.weight"
    for head, parts in (
        ("decoder.head.2.weight", {"2.1": usual, "2.2": deeper, "2x": usual}),
        ("decoder.conv_out.weight", {"2.1": theirs, "2.2": theirs_deeper, "2x": theirs}),
    ):
        for model, part in parts.items():
            names = (part, "decoder.middle.0.gamma")
            shapes: dict[str, tuple[int, ...]] = {prefix + name: FLAT for name in names}
            shapes[prefix + head] = (3 if model == "2.1" else 12, 8, 3, 3, 3)
            assert str(content_message(recognise(shapes))) == f"a Wan {model} VAE"
