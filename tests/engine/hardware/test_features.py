from __future__ import annotations

import pytest

from engine.hardware.features import products
from engine.ops.linear.formats import PRODUCTS


@pytest.mark.parametrize(
    ("capability", "offered"),
    [
        (None, set()),
        ((6, 1), set()),
        ((7, 5), {"int8"}),  # RTX 20
        ((8, 6), {"int8"}),  # RTX 30
        ((8, 9), {"int8", "fp8"}),  # RTX 40
        ((9, 0), {"int8", "fp8"}),
        ((12, 0), {"int8", "fp8", "nvfp4"}),  # RTX 50
    ],
)
def test_what_a_card_multiplies(capability: tuple[int, int] | None, offered: set[str]) -> None:
    assert set(products(capability)) == offered


def test_formats_have_the_names_that_layers_have() -> None:
    assert set(products((99, 0))) == set(PRODUCTS)
