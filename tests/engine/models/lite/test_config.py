"""Reading a configuration off tensor shapes."""

from __future__ import annotations

import pytest

from engine.core.errors import UnknownKeys
from engine.models.lite.files import LiteConfig, config_from_shapes


@pytest.mark.parametrize("scale", [2, 4])
@pytest.mark.parametrize("layers", [0, 1, 5])
def test_shapes_give_back_the_configuration(scale: int, layers: int) -> None:
    config = LiteConfig(scale=scale, channels=8, layers=layers)
    assert config_from_shapes(config.shapes()) == config


def test_receptive_radius_counts_every_convolution() -> None:
    assert LiteConfig(scale=2, layers=4).receptive_radius == 6


def test_missing_unknown_and_misshapen_tensors_are_all_named() -> None:
    shapes = LiteConfig(scale=2, channels=8, layers=1).shapes()
    del shapes["convolutions.1.bias"]
    shapes["stranger"] = (1,)
    shapes["convolutions.2.bias"] = (3,)
    with pytest.raises(UnknownKeys) as caught:
        config_from_shapes(shapes)
    for text in (
        "convolutions.1.bias is missing",
        "stranger is not known",
        "convolutions.2.bias is [3] instead of [12]",
    ):
        assert text in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("shapes", [{}, {"a.weight": (3, 3)}, {"convolutions.0.weight": (5, 3)}])
def test_weights_of_another_model_are_refused(shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(UnknownKeys, match="not weights of the built-in Lite model"):
        config_from_shapes(shapes)
