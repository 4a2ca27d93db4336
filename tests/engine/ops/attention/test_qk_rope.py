import pytest
import torch
from torch import Tensor

from engine.ops.attention.qk_rope import HeadNorm, Placement, Triple, gather_qk
from engine.ops.norm import cache_blocks

EPS = 1e-5
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def literal(x: Tensor, weight: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
    """RMS norm and rotation of [N, heads, d], pair by pair."""
    x = x.double()
    x = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight.double()
    if cos is None or sin is None:
        return x
    result = x.clone()
    for pair in range(cos.shape[1]):
        c, s = cos[:, pair, None].double(), sin[:, pair, None].double()
        even, odd = x[..., 2 * pair], x[..., 2 * pair + 1]
        result[..., 2 * pair] = even * c - odd * s
        result[..., 2 * pair + 1] = odd * c + even * s
    return result


@pytest.fixture(params=[1, 700, 2**20])
def _cached_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_blocks, "_CACHED_BYTES", request.param)


def problem(dtype: torch.dtype, pairs: int = 3) -> tuple[Tensor, HeadNorm, Tensor, Tensor]:
    """q, k, v of 10 tokens with 2 heads of 8 channels; weights; cos and sin of 10 rows."""
    qkv = (torch.randn(10, 3, 2, 8, dtype=torch.float64) * 3).to(dtype)
    weights = torch.rand(2, 8, dtype=torch.float64) + 0.5
    angles = torch.rand(10, pairs, dtype=torch.float64) * 6
    norm = HeadNorm(weights[0].to(dtype), weights[1].to(dtype), EPS)
    return qkv, norm, angles.cos(), angles.sin()


def rows_of(count: int, dtype: torch.dtype) -> Triple:
    """Three views that start inside larger buffers."""
    q, k, v = (torch.full((count + 2, 2, 8), 77.0, dtype=dtype)[1:-1] for _ in range(3))
    return q, k, v


def assert_placed(out: Triple, wanted: list[Tensor], target: Tensor) -> None:
    eps = 2 * torch.finfo(out[0].dtype).eps
    for found, want in zip(out, wanted, strict=True):
        for places in torch.atleast_2d(target):
            torch.testing.assert_close(found[places].double(), want, rtol=eps, atol=eps)
        untouched = torch.ones(len(found), dtype=torch.bool)
        untouched[target.flatten()] = False
        assert (found[untouched] == 77).all()


@pytest.mark.usefixtures("_cached_bytes")
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_token_is_normalised_turned_and_put_in_its_row(dtype: torch.dtype) -> None:
    for pairs in (3, 4):
        qkv, norm, cos, sin = problem(dtype, pairs)
        angle, target = torch.arange(10) % 5, torch.randperm(14)[:10]
        for placement, rows in (
            (Placement(target, cos, sin), torch.arange(10)),
            (Placement(target, cos[:5], sin[:5], angle), angle),  # windows of one shape
        ):
            out = rows_of(14, dtype)
            gather_qk(qkv, placement, norm, out)
            q, k = (
                literal(qkv[:, i], w, cos[rows], sin[rows]) for i, w in enumerate((norm.q, norm.k))
            )
            assert_placed(out, [q, k, qkv[:, 2].double()], target)


@pytest.mark.usefixtures("_cached_bytes")
def test_text_is_copied_after_every_window_and_may_stay_unrotated() -> None:
    qkv, norm, _, _ = problem(torch.float64)
    target, out = torch.randperm(33)[:30].view(3, 10), rows_of(33, torch.float64)
    gather_qk(qkv, Placement(target), norm, out)
    q, k = (literal(qkv[:, i], w, None, None) for i, w in enumerate((norm.q, norm.k)))
    assert_placed(out, [q, k, qkv[:, 2]], target)


def test_parts_of_a_projection_one_after_another_equal_the_whole() -> None:
    qkv, norm, cos, sin = problem(torch.float64)
    for angle in (torch.randperm(10), None):
        placement = Placement(torch.randperm(20).view(2, 10), cos, sin, angle)
        whole, parts = rows_of(20, torch.float64), rows_of(20, torch.float64)
        gather_qk(qkv, placement, norm, whole)
        for span in (slice(0, 3), slice(3, 9), slice(9, 10)):
            gather_qk(qkv[span], placement.part(span), norm, parts)
        for found, want in zip(parts, whole, strict=True):
            assert torch.equal(found, want)


def test_views_and_no_tokens_will_do() -> None:
    qkv, norm, cos, sin = problem(torch.float64)
    padded = torch.zeros(10, 3, 2, 11, dtype=torch.float64)[..., 1:9].copy_(qkv)
    target, found, wanted = torch.arange(10), rows_of(10, qkv.dtype), rows_of(10, qkv.dtype)
    gather_qk(padded, Placement(target, cos, sin), norm, found)
    gather_qk(qkv, Placement(target, cos, sin), norm, wanted)
    assert torch.equal(torch.stack(found), torch.stack(wanted))
    gather_qk(qkv[:0], Placement(target[:0], cos, sin), norm, found)


def test_mistakes_are_named() -> None:
    qkv, norm, cos, _ = problem(torch.float64)
    out = rows_of(10, torch.float64)
    with pytest.raises(ValueError, match="10 tokens have 9 targets"):
        gather_qk(qkv, Placement(torch.arange(9)), norm, out)
    with pytest.raises(ValueError, match="do not fit"):
        gather_qk(qkv[..., :6], Placement(torch.arange(10)), norm, out)
    with pytest.raises(ValueError, match="cos without sin"):
        gather_qk(qkv, Placement(torch.arange(10), cos), norm, out)
