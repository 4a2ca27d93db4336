from __future__ import annotations

from collections import Counter

import pytest

from engine.core.errors import SettingsError
from engine.hardware.gpu_table import (
    GIB,
    Card,
    cards,
    find,
    pretended,
)

# Operations of the matrix units for a byte of memory: a slip in a row leaves this band.
FLOPS_A_BYTE = (50, 450)
PUBLISHED = [  # NVIDIA's white papers: TFLOP/s of matrices in half precision, sums in float32
    ("NVIDIA GeForce RTX 2080 Ti", 53.8),  # at the reference clock of 1545 MHz
    ("NVIDIA GeForce RTX 3090", 71.0),
    ("NVIDIA GeForce RTX 4090", 165.2),
    ("NVIDIA GeForce RTX 5090", 209.5),
]


@pytest.fixture(params=cards(), ids=lambda card: f"{card.title} {card.form}")
def card(request: pytest.FixtureRequest) -> Card:
    return request.param


def test_a_card_has_figures_that_cards_have(card: Card) -> None:
    assert card.generation in ("turing", "ampere", "ada", "blackwell")
    assert (7, 5) <= card.capability <= (12, 0)
    assert card.form in ("desktop", "laptop")
    assert 4 * GIB <= card.memory_bytes <= 32 * GIB
    assert 100e9 <= card.bandwidth <= 2000e9
    assert 10e12 <= card.half_flops <= 250e12
    assert 4e12 <= card.single_flops <= 120e12
    assert 7e9 <= card.link_bandwidth <= 64e9
    assert FLOPS_A_BYTE[0] <= card.half_flops / card.bandwidth <= FLOPS_A_BYTE[1]


def test_a_card_is_found_by_what_the_driver_says(card: Card) -> None:
    assert find(card.name, card.memory_bytes) == card
    assert find(card.name, card.memory_bytes - 300 * 2**20) == card  # the driver keeps a little


def test_names_differ_or_memory_does() -> None:
    seen = Counter((card.name, card.memory_bytes) for card in cards())
    assert set(seen.values()) == {1}


def test_every_generation_has_desktop_and_laptop_cards() -> None:
    kinds = {(card.generation, card.form) for card in cards()}
    assert len(kinds) == 8


@pytest.mark.parametrize(("name", "teraflops"), PUBLISHED)
def test_matrix_rates_are_those_of_the_white_papers(name: str, teraflops: float) -> None:
    found = find(name)
    assert found is not None
    assert found.half_flops == pytest.approx(teraflops * 1e12, rel=0.01)


def test_a_laptop_is_not_faster_than_the_desktop_card_of_its_name() -> None:
    pairs = 0
    for card in cards():
        desktop = find(card.name.removesuffix(" Laptop GPU").removesuffix(" with Max-Q Design"))
        if card.form == "laptop" and desktop is not None and desktop.form == "desktop":
            pairs += 1
            assert card.half_flops <= desktop.half_flops * 1.2, card.title
    assert pairs > 10


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 5070 Ti", "GeForce RTX 5070 Ti", "rtx 5070 ti", "5070 Ti"]
)
def test_pretending_takes_the_name_as_people_write_it(name: str) -> None:
    assert pretended(name).title == "RTX 5070 Ti, 16 GB"


def test_pretending_another_size() -> None:
    assert pretended("RTX 3060", 8 * GIB).bandwidth == 240e9  # there is such a card
    assert pretended("RTX 5070 Ti", 12 * GIB).title == "RTX 5070 Ti, 12 GB"


def test_an_unknown_card_names_the_nearest() -> None:
    with pytest.raises(SettingsError) as caught:
        pretended("NVIDIA GeForce RTX 5075 Ti")
    assert "RTX 5070 Ti" in caught.value.hint
