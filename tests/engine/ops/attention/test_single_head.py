from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.attention import single_head
from engine.ops.attention.single_head import attend_in_chunks, attend_single_head
from tests.helpers.seedvr2 import random_frames
from tests.helpers.tensors import relative_rms

Triple = tuple[Tensor, Tensor, Tensor]


def tokens(frames: int, length: int, channels: int, scale: float = 3.0) -> Triple:
    """q, k and v as a joined projection gives them: thirds of one tensor, not dense."""
    q, k, v = (scale * random_frames(frames, length, 3 * channels)).chunk(3, dim=-1)
    return q, k, v


def literal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k' / sqrt(C)) v."""
    scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True) @ v


@settings(max_examples=25, deadline=None)
@given(
    frames=st.integers(1, 3),
    length=st.integers(1, 40),
    channels=st.sampled_from([1, 8, 24]),
    rows=st.integers(0, 50),
)
def test_every_variant_equals_the_formula(
    frames: int, length: int, channels: int, rows: int
) -> None:
    q, k, v = tokens(frames, length, channels)
    wanted = literal(q, k, v)
    for found in (
        attend_in_chunks(q, k, v, 2 * 8 * length * rows),
        attend_single_head(q, k, v),
        attend_single_head(q, k, v, chunked=False),
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_scores_never_take_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tokens(2, 30, 8)
    sizes: list[int] = []
    softmax = torch.softmax

    def seen(scores: Tensor, dim: int) -> Tensor:
        sizes.append(2 * scores.nbytes)
        return softmax(scores, dim)

    monkeypatch.setattr(torch, "softmax", seen)
    one_query = 2 * 8 * 30
    for scores_bytes in (0, 1, one_query, 7 * one_query, 2**20):
        sizes.clear()
        found = attend_in_chunks(q, k, v, scores_bytes)
        torch.testing.assert_close(found, literal(q, k, v), rtol=0, atol=1e-12)
        assert max(sizes) <= max(scores_bytes, one_query)
        if scores_bytes < 2 * one_query:
            assert sizes == [one_query] * 60


def test_chunks_are_as_exact_as_torch_in_half_precision() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        q, k, v = (part.to(dtype) for part in tokens(2, 80, 32, scale=5.0))
        exact = literal(q.double(), k.double(), v.double())
        ours = relative_rms(attend_in_chunks(q, k, v, 9000), exact)
        assert ours <= 1.5 * relative_rms(attend_single_head(q, k, v), exact)


def test_a_device_without_wide_heads_goes_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = Mock(side_effect=lambda q, k, v: q)
    monkeypatch.setattr(single_head, "attend_in_chunks", chunks)
    monkeypatch.setattr(single_head, "_memory_efficient", lambda *given: False)
    elsewhere = [part.to("meta") for part in tokens(1, 6, 4)]
    assert attend_single_head(*elsewhere).shape == (1, 6, 4)
    attend_single_head(*elsewhere, chunked=False)
    attend_single_head(*tokens(1, 6, 4))
    assert chunks.call_count == 1
