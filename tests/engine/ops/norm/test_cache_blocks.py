from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.norm import cache_blocks
from engine.ops.norm.cache_blocks import inverse_rms, spans


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


def test_the_root_mean_square_is_that_of_the_last_dimension() -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    wanted = 1 / (x.square().mean(-1, keepdim=True) + 0.1).sqrt()
    torch.testing.assert_close(inverse_rms(x, 0.1), wanted)
