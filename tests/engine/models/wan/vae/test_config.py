from __future__ import annotations

import json

import pytest
import torch

from engine.core.errors import UnknownKeys, WrongModel
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig, infer_wan_config
from engine.models.wan.vae.keymap import wan_keys
from engine.models.wan.vae.plain import WanVae
from tests.helpers.wan import GOLDEN, tiny_wan_config

PUBLISHED = {"wan21": WAN21, "wan22": WAN22, "wan21_upscale2x": WAN2X}


def shapes_of(config: WanConfig) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        vae = WanVae(config)
    return {name: tuple(value.shape) for name, value in vae.state_dict().items()}


def test_the_published_ones_are_inferred() -> None:
    for model, config in PUBLISHED.items():
        keys = json.loads((GOLDEN / f"manifest_{model}.json").read_text())["keys"]
        assert infer_wan_config({name: tuple(shape) for name, shape in keys.items()}) == config


@pytest.mark.parametrize("layout", ["2.1", "2.2", "2x"])
def test_no_single_tensor_decides(layout: str) -> None:
    """The loader names what is missing or misshapen; it needs the right configuration for it."""
    config = tiny_wan_config(layout)
    shapes = shapes_of(config)
    decisive = {"encoder.conv1.weight", "decoder.head.2.weight"}  # colours stand nowhere else
    for name in shapes:
        assert infer_wan_config({n: s for n, s in shapes.items() if n != name}) == config, name
        if name not in decisive:
            assert infer_wan_config(shapes | {name: (1,)}) == config, name


def test_pictures_with_transparency_are_refused() -> None:
    cases = ((4, 4, "2.1"), (4, 3, "2.1"), (3, 4, "2.1"), (16, 16, "2.2"))
    for reads, writes, layout in cases:
        shapes = shapes_of(tiny_wan_config(layout))
        first, last = shapes["encoder.conv1.weight"], shapes["decoder.head.2.weight"]
        shapes["encoder.conv1.weight"] = (first[0], reads, *first[2:])
        shapes["decoder.head.2.weight"] = (writes, *last[1:])
        shapes["decoder.head.2.bias"] = (writes,)
        with pytest.raises(WrongModel, match=f"reads {reads} channels and writes {writes};"):
            infer_wan_config(shapes)


def test_other_models_and_impossible_sizes_are_refused() -> None:
    with pytest.raises(UnknownKeys, match="not contain weights of a Wan VAE"):
        infer_wan_config({"encoder.conv_in.weight": (8, 3, 3, 3)})
    with pytest.raises(ValueError, match="between them"):
        tiny_wan_config(multipliers=(1, 2))
    with pytest.raises(ValueError, match="5 channels"):
        tiny_wan_config(out_channels=5)


def table(model: str) -> dict[str, str]:
    return json.loads((GOLDEN / f"diffusers_keymap_{model}.json").read_text())["table"]


@pytest.mark.parametrize("prefix", ["", "vae.", "model.", "first_stage_model.", "model.vae."])
@pytest.mark.parametrize("model", ["wan21", "wan22"])
def test_every_layout_gives_our_names(model: str, prefix: str) -> None:
    for names in (table(model), {ours: ours for ours in table(model).values()}):
        given = [prefix + name for name in names]
        found = wan_keys(given).published(given)
        assert found == {ours: prefix + theirs for theirs, ours in names.items()}


def test_a_prefix_that_not_all_have_stays() -> None:
    names = ["vae.encoder.conv1.weight", "encoder.conv1.weight"]
    assert wan_keys(names).published(names) == {name: name for name in names}
    assert wan_keys([]).published([]) == {}
