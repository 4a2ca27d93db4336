"""The switch vae.compile: the same values, in slices too, whatever fails, in planned memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.core.geometry import Size
from engine.models.video_vae.measuring import clip_use
from engine.models.video_vae.vae_use import VaeUse
from engine.ops import compiler
from engine.ops.compiler import reporting
from engine.settings.optimisations import VaeSwitches
from tests.helpers.compiling import compiling, needs_compiler
from tests.helpers.extended import rest_extended
from tests.helpers.memory import BFLOAT16, Allocations
from tests.helpers.vaes import ROWS, VaeRow, clip_of

ON = VaeSwitches(compile=True)
EXACT = 1e-10  # of the range of the result, in float64


NORMS = [ROWS["seedvr2"], ROWS["wan 2.2"]]  # one VAE with each kind of norm
EACH = pytest.mark.parametrize("row", NORMS, ids=str)


def fast_of(row: VaeRow, switches: VaeSwitches = ON) -> Any:
    return row.fast(row.plain(), switches)


def both_ways(vae: Any, clip: Tensor) -> list[Tensor]:
    posterior = vae.posterior(clip)
    return [posterior, vae.decode(posterior.chunk(2, dim=1)[0])]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert ((one - other).abs().max() / other.abs().max()).item() < EXACT


def assert_equal_at_any_size(row: VaeRow) -> None:
    fast, plain = fast_of(row), row.plain()
    fast.enable_slicing(4)
    for frames, size in ((9, (2, 3)), (1, (3, 2))):
        clip = clip_of(row.config, frames, *size)
        assert_equal(both_ways(fast, clip), both_ways(plain, clip))


@pytest.mark.parametrize("row", rest_extended(NORMS, ROWS["seedvr2"]), ids=str)
def test_it_equals_the_plain_variant_at_any_size_and_in_slices(row: VaeRow) -> None:
    with compiling() as found:
        assert_equal_at_any_size(row)
    assert not any(one.failure for one in found)
    # with SiLU or without; with a bias of the convolution before it or without
    assert Counter(one.name for one in found) == row.compiled


@pytest.mark.slow
@EACH
def test_without_the_other_switches_it_is_the_same(row: VaeRow) -> None:
    clip = clip_of(row.config, 5, 2, 3)
    expected = both_ways(row.plain(), clip)
    with compiling() as found:
        for others in (VaeSwitches.only("compile"), ON.changed("in_place", False)):
            assert_equal(both_ways(fast_of(row, others), clip), expected)
    assert found


@EACH
def test_what_cannot_be_compiled_is_computed_as_without_it(
    row: VaeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr("engine.models.video_vae.runner.require_compiler", lambda _: None)
    clip = clip_of(row.config, 9, 1, 1)
    with compiling(broken) as found:
        fast = fast_of(row)
        fast.enable_slicing(4)
        assert_equal(both_ways(fast, clip), both_ways(row.plain(), clip))
    assert found
    assert {one.failure for one in found} == {"no such instruction"}
    assert len({one.name for one in found}) == len(found), "each pass is tried once"


@EACH
def test_without_a_compiler_it_is_refused(row: VaeRow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "fault_of", lambda *_: "no")
    with pytest.raises(FeatureMissing) as caught:
        fast_of(row)
    assert caught.value.case == "compile-on-processor"
    assert "vae.compile" in caught.value.hint
    fast_of(row, VaeSwitches())


@pytest.mark.programs("g++")
@pytest.mark.slow
@EACH
def test_compiled_by_inductor_it_equals_the_plain_variant(row: VaeRow) -> None:
    needs_compiler()
    found: list[Any] = []
    with reporting(found.append):
        assert_equal_at_any_size(row)
    assert not any(one.failure for one in found)


@pytest.mark.programs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=BFLOAT16)])
@EACH
def test_compiled_it_takes_no_more_than_was_planned(row: VaeRow, dtype: str) -> None:
    needs_compiler()
    use, size, kind = VaeUse(dtype=dtype, switches=ON), Size(96, 80), getattr(torch, dtype)
    vae = row.fast(row.plain(row.wide, dtype=torch.float32), ON, dtype=kind)
    vae.enable_slicing(4)
    clip = torch.zeros(1, 3, 9, 80, 96, dtype=kind)
    latent = vae.encode(clip)
    vae.decode(latent)  # compiled
    for side, step in (
        ("encode", lambda: vae.posterior(clip)),
        ("decode", lambda: vae.decode(latent)),
    ):
        vae.release()
        with Allocations() as found:
            step()
        assert found.peak_bytes <= clip_use(row.code, row.wide, use, side, size, 9).peak_bytes
