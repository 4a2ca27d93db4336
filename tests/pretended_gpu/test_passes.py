"""Bytes of passes and launches that plans count with, against those of the pretended GPU.

On a failure run `python -m tests.pretended_gpu.passes`, or with the names of some networks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.models import gpu_passes
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.cost import DitUse, forward_passes
from engine.settings.optimisations import DitSwitches
from tests.helpers.extended import rest_extended
from tests.pretended_gpu.passes import SIZE, of_transformer, of_vae
from tests.pretended_gpu.published import DIT, VAE
from tools.memory_table import VAES

pytestmark = pytest.mark.pretended_gpu

GRID = (2, 90, 160)


@pytest.mark.parametrize("name", rest_extended(VAES, "seedvr2", "wan22"))
def test_passes_of_a_vae_move_what_is_planned(name: str) -> None:
    code, config = VAES[name].vae, VAES[name].config
    for call, found in of_vae(code, config):
        planned = gpu_passes.of_slices(code.passes(config), call, VAE)
        moved = [one / SIZE.pixels for one, _ in found]
        assert moved == pytest.approx([one.moved for one in planned], rel=0.05), call
        launched = [one for _, one in found]
        assert launched == pytest.approx([one.launches for one in planned], rel=0.1), call


@pytest.mark.extended
@pytest.mark.parametrize("switch", ["kernels", "channels_last"])
def test_a_vae_without_a_switch_moves_what_is_planned(switch: str) -> None:
    code, config = VAES["seedvr2"].vae, VAES["seedvr2"].config
    switches = VAE.changed(switch, False)
    usual, planned = (gpu_passes.of_slices("seedvr2", "decode_slice", s) for s in (VAE, switches))
    found = dict(of_vae(code, config, switches))["decode_slice"]
    moved = [one / SIZE.pixels for one, _ in found]
    assert moved == pytest.approx([one.moved for one in planned], rel=0.05)
    assert planned[2].moved > 1.2 * usual[2].moved


USES: list[tuple[str, str, DitSwitches]] = [
    ("bfloat16", "none", DIT.changed("kernels", False)),
    ("bfloat16", "none", DIT.all_off()),
    ("bfloat16", "fp8", DIT),
    ("bfloat16", "int8", DIT.changed("in_place_residual", False)),  # counted as a sum
    ("float16", "none", DIT),
]


def compared(config: DitConfig, dtype: str, products: str, switches: DitSwitches) -> None:
    """Six layers: the ends of a forward are not in the table."""
    config = replace(config, layers=6, separate_layers=min(6, config.separate_layers))
    about: Any = {"switches": switches, "dtype": dtype, "products": products}
    moved, launched = of_transformer(config, GRID, **about)
    planned = forward_passes(
        config, GRID, DitUse(dtype=dtype, products=products, switches=switches)
    )
    assert planned.moved == pytest.approx(moved, rel=0.05)
    assert planned.launches == pytest.approx(launched, rel=0.1)


@pytest.mark.parametrize("config", [DIT_3B, DIT_7B], ids=["3B", "7B"])
def test_passes_of_a_transformer_move_what_is_planned(config: DitConfig) -> None:
    compared(config, "float16", "none", DIT)


@pytest.mark.extended
@pytest.mark.parametrize("number", range(len(USES)))
def test_other_switches_and_formats_move_what_is_planned(number: int) -> None:
    compared(DIT_3B, *USES[number])
