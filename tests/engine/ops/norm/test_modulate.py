import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.norm import cache_blocks
from engine.ops.norm.cache_blocks import spans
from engine.ops.norm.token_passes import add_gated, rms_modulate

HALVES = (torch.float16, torch.bfloat16)
EPS = 1e-5


def literal(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    x = x.double()
    result = x / (x.square().mean(1, keepdim=True) + EPS).sqrt()
    if scale is not None:
        result = result * scale.double()
    return result if shift is None else result + shift.double()


@pytest.fixture(params=[1, 700, 2**20])
def _cached_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token at a time, some, all."""
    monkeypatch.setattr(cache_blocks, "_CACHED_BYTES", request.param)


def tokens(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return (torch.randn(shape, dtype=torch.float64) * 3 + 1).to(dtype)


@pytest.mark.usefixtures("_cached_bytes")
def test_is_the_formula_in_float64() -> None:
    x, scale, shift = tokens(13, 24), tokens(24), tokens(24)
    for factors in ((scale, shift), (scale, None), (None, shift), (None, None)):
        for y in (x, x.t().contiguous().t()):  # columns far apart are tokens too
            found = rms_modulate(y, *factors, EPS)
            torch.testing.assert_close(found, literal(x, *factors), rtol=1e-14, atol=1e-14)


@pytest.mark.usefixtures("_cached_bytes")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
def test_views_go_in_place_and_into_views(dtype: torch.dtype) -> None:
    whole, scale, shift = tokens(9, 40, dtype=dtype), tokens(16), tokens(16)
    x, before = whole[2:, 8:24], whole.clone()
    wanted = rms_modulate(x.clone(), scale, shift, EPS)
    buffer = torch.zeros(8, 20, dtype=dtype)
    rms_modulate(x, scale, shift, EPS, buffer[1:, 4:])
    assert torch.equal(buffer[1:, 4:], wanted)
    assert not buffer[0].any()
    assert not buffer[:, :4].any()
    rms_modulate(x, scale, shift, EPS, x)
    before[2:, 8:24] = wanted
    assert torch.equal(whole, before)


@pytest.mark.usefixtures("_cached_bytes")
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    x, scale, shift = tokens(11, 48, dtype=dtype), tokens(48), tokens(48)
    wanted = literal(x, scale, shift)
    found = rms_modulate(x, scale, shift, EPS)
    assert found.dtype == dtype
    step = torch.finfo(dtype).eps * wanted.abs().clamp_min(torch.finfo(dtype).tiny)
    assert ((found.double() - wanted).abs() <= 0.51 * step + 1e-5).all()


def test_a_float32_stream_feeds_half_layers_and_takes_a_half_branch() -> None:
    x, y = tokens(5, 8, dtype=torch.float32), tokens(5, 8, dtype=torch.float16)
    out = torch.empty(5, 8, dtype=torch.float16)
    rms_modulate(x, None, None, EPS, out)
    assert torch.equal(out, rms_modulate(x, None, None, EPS).half())
    wanted = x + y.float() * 0.5
    assert torch.equal(add_gated(x, y, torch.full((8,), 0.5)), wanted)


def test_extreme_and_empty_tokens() -> None:
    large = torch.full((2, 2048), 30_000.0, dtype=torch.float16)
    assert torch.equal(rms_modulate(large, None, None, EPS), torch.ones_like(large))
    assert not rms_modulate(torch.zeros(3, 8), None, None, EPS).any()
    assert rms_modulate(torch.zeros(0, 8), None, None, EPS).shape == (0, 8)
    assert add_gated(torch.zeros(0, 8), torch.zeros(0, 8), torch.ones(8)).shape == (0, 8)


@pytest.mark.usefixtures("_cached_bytes")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
def test_a_gated_branch_is_added_in_place(dtype: torch.dtype) -> None:
    buffer, y, gate = tokens(9, 20, dtype=dtype), tokens(7, 12, dtype=dtype), tokens(12)
    residual, before = buffer[1:8, 4:16], buffer.clone()
    wanted = residual.double() + y.double() * gate
    assert add_gated(residual, y, gate) is residual
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(residual.double(), wanted, rtol=eps, atol=8 * eps)
    residual.copy_(before[1:8, 4:16])
    assert torch.equal(buffer, before)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="out is"):
        rms_modulate(tokens(3, 4), None, None, EPS, tokens(3, 5))
    with pytest.raises(ValueError, match="y is"):
        add_gated(tokens(3, 4), tokens(2, 4), tokens(4))


@settings(max_examples=25, deadline=None)
@given(count=st.integers(0, 3000), width=st.integers(0, 2000))
def test_spans_cover_every_row_once_and_stay_in_the_cache(count: int, width: int) -> None:
    found = list(spans(torch.empty(count, width, dtype=torch.float16)))
    assert [row for span in found for row in range(span.start, span.stop)] == list(range(count))
    assert all((span.stop - span.start) * width * 4 <= 2**20 for span in found)


def test_a_row_wider_than_the_cache_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.empty(8192, 2560, device="meta")  # elsewhere fewer and longer spans are better
    assert 1 < len(list(spans(x))) < len(list(spans(torch.empty(8192, 2560))))
    monkeypatch.setattr(cache_blocks, "_CACHED_BYTES", 8)
    assert list(spans(torch.empty(2, 100))) == [slice(0, 1), slice(1, 2)]
