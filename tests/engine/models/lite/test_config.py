"""Reading a configuration off tensor shapes."""

from __future__ import annotations

import pytest

from engine.core.errors import UnknownKeys
from engine.core.paths import resource
from engine.models.lite.files import (
    FILES,
    LiteConfig,
    config_from_shapes,
    config_of,
    weights_path,
)


def test_shapes_give_back_the_configuration() -> None:
    for scale in (2, 4):
        for layers, frames in ((0, 1), (1, 3), (5, 3)):
            config = LiteConfig(scale=scale, channels=8, layers=layers, frames=frames)
            assert config_from_shapes(config.shapes()) == config
    assert LiteConfig(scale=2, layers=4).receptive_radius == 6


def test_every_file_is_named_once_and_holds_the_network_of_its_name() -> None:
    names = [file.name for file in FILES]
    assert len(set(names)) == len(FILES) == 8
    assert {"lite_x2_faithful.safetensors", "lite_plus_x4_restore.safetensors"} < set(names)
    shipped = {path.name for path in resource("weights").glob("*.safetensors")}
    assert shipped == set(names)
    assert sum(weights_path(name).stat().st_size for name in names) < 8e6
    for file in FILES:
        config = config_of(file.name)
        assert config.scale == file.scale
        assert (config.channels > 32) == (file.model == "lite-plus")


def test_missing_unknown_and_misshapen_tensors_are_all_named() -> None:
    shapes = LiteConfig(scale=2, channels=8, layers=1).shapes()
    del shapes["convolutions.1.bias"]
    shapes |= {"stranger": (1,), "convolutions.2.bias": (3,)}
    with pytest.raises(UnknownKeys) as caught:
        config_from_shapes(shapes)
    for text in (
        "convolutions.1.bias is missing",
        "stranger is unknown",
        "convolutions.2.bias is [3] instead of [12]",
    ):
        assert text in caught.value.message
    assert caught.value.hint
    for others in ({}, {"a.weight": (3, 3)}, {"convolutions.0.weight": (5, 3)}):
        with pytest.raises(UnknownKeys, match="not contain weights of the built-in Lite model"):
            config_from_shapes(others)
