"""The switch vae.compile for both families: same values, slices, tiles, failures, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.core.geometry import Size
from engine.models.seedvr2.planning.vae_memory import VAES as SEEDVR2_VAES
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.video_vae.measuring import clip_use
from engine.models.video_vae.vae_use import VaeUse
from engine.models.wan.planning.vae_memory import VAES as WAN_VAES
from engine.models.wan.vae.fast import FastWanVae
from engine.ops import compiler
from engine.ops.compiler import reporting
from engine.settings.optimisations import VaeSwitches
from tests.helpers.compiling import compiling, needs_compiler
from tests.helpers.extended import extended
from tests.helpers.memory import BFLOAT16, Allocations
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

ON = VaeSwitches(compile=True)
EXACT = 1e-10  # of the range of the result, in float64


@dataclass(frozen=True)
class Family:
    """A family's plain VAE, and what makes the fast one of it."""

    plain: Any
    fast: Callable[..., Any]

    def double(self, switches: VaeSwitches = ON) -> Any:
        state = self.plain.state_dict()
        return self.fast(self.plain.config, state, dtype=torch.float64, switches=switches)


def seedvr2() -> Family:
    return Family(tiny_vae(), FastVae)


def wan() -> Family:
    return Family(tiny_wan(tiny_wan_config("2.2")), FastWanVae)


EACH = pytest.mark.parametrize("make", [seedvr2, wan])


def clip_of(vae: Any, frames: int, size: tuple[int, int] = (2, 3)) -> Tensor:
    height, width = (vae.config.spatial_factor * side for side in size)
    return random_frames(1, 3, frames, height, width)


def both_ways(vae: Any, clip: Tensor) -> list[Tensor]:
    posterior = vae.posterior(clip)
    return [posterior, vae.decode(posterior.chunk(2, dim=1)[0])]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert ((one - other).abs().max() / other.abs().max()).item() < EXACT


def assert_equal_at_any_size(family: Family) -> None:
    fast = family.double()
    fast.enable_slicing(4)
    for frames, size in ((9, (2, 3)), (1, (3, 2))):
        clip = clip_of(family.plain, frames, size)
        assert_equal(both_ways(fast, clip), both_ways(family.plain, clip))


@pytest.mark.parametrize("make", [seedvr2, *extended(wan)])
def test_it_equals_the_plain_variant_at_any_size_and_in_slices(make: Callable[[], Family]) -> None:
    family = make()
    with compiling() as found:
        assert_equal_at_any_size(family)
    assert not any(one.failure for one in found)
    # with SiLU or without; with a bias of the convolution before it or without; two layouts
    assert Counter(one.name for one in found) == (
        {"rms_norm": 4} if make is wan else {"group_norm": 3, "add": 1}
    )


@pytest.mark.slow
@EACH
def test_without_the_other_switches_it_is_the_same(make: Callable[[], Family]) -> None:
    family = make()
    clip = clip_of(family.plain, 5)
    expected = both_ways(family.plain, clip)
    with compiling() as found:
        for others in (VaeSwitches.only("compile"), ON.changed("in_place", False)):
            assert_equal(both_ways(family.double(others), clip), expected)
    assert found


@EACH
def test_what_cannot_be_compiled_is_computed_as_without_it(
    make: Callable[[], Family], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr("engine.models.video_vae.runner.require_compiler", lambda _: None)
    family = make()
    clip = clip_of(family.plain, 9)
    with compiling(broken) as found:
        fast = family.double()
        fast.enable_slicing(4)
        assert_equal(both_ways(fast, clip), both_ways(family.plain, clip))
    assert found
    assert {one.failure for one in found} == {"no such instruction"}
    assert len({one.name for one in found}) == len(found), "each pass is tried once"


@EACH
def test_without_a_compiler_it_is_refused(
    make: Callable[[], Family], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "fault_of", lambda *_: "no")
    family = make()
    with pytest.raises(FeatureMissing) as caught:
        family.double()
    assert caught.value.case == "compile-on-processor"
    assert "vae.compile" in caught.value.hint
    family.double(VaeSwitches())


@pytest.mark.programs("g++")
@pytest.mark.slow
@EACH
def test_compiled_by_inductor_it_equals_the_plain_variant(make: Callable[[], Family]) -> None:
    needs_compiler()
    family = make()
    found: list[Any] = []
    with reporting(found.append):
        assert_equal_at_any_size(family)
    assert not any(one.failure for one in found)


@pytest.mark.programs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=BFLOAT16)])
@pytest.mark.parametrize("name", ["seedvr2", "wan"])
def test_compiled_it_takes_no_more_than_was_planned(name: str, dtype: str) -> None:
    needs_compiler()
    if name == "seedvr2":
        config = VaeConfig(
            block_out_channels=(16, 32, 64, 64),
            norm_groups=8,
            latent_channels=4,
            layers_per_block=1,
        )
        plain, fast, vaes = tiny_vae(config, dtype=torch.float32), FastVae, SEEDVR2_VAES
    else:
        config = tiny_wan_config("2.1", dim=16, dec_dim=16, residual_blocks=1)
        plain, fast, vaes = tiny_wan(config, dtype=torch.float32), FastWanVae, WAN_VAES
    use, size = VaeUse(dtype=dtype, switches=ON), Size(96, 80)
    vae = fast(config, plain.state_dict(), dtype=getattr(torch, dtype), switches=ON)
    vae.enable_slicing(4)
    clip = torch.zeros(1, 3, 9, 80, 96, dtype=getattr(torch, dtype))
    latent = vae.encode(clip)
    vae.decode(latent)  # compiled
    for side, step in (
        ("encode", lambda: vae.posterior(clip)),
        ("decode", lambda: vae.decode(latent)),
    ):
        vae.release()
        with Allocations() as found:
            step()
        assert found.peak_bytes <= clip_use(vaes, config, use, side, size, 9).peak_bytes
