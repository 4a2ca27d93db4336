"""Details of the plain transformer that are easily wrong; tests/golden has the published values."""

from __future__ import annotations

import pytest
import torch

from engine.models.seedvr2.dit.config import windows
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

KINDS = ("3b", "7b")


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_other_types(kind: str) -> None:
    dit = random_dit(tiny_dit_config(kind))
    for shape, text in (((1, 2, 2), 9), ((6, 4, 10), 1)):
        given_ = random_inputs(dit.config, shape, text=text)
        copies = [value.clone() for value in given_]
        result = dit(*given_, 1000.0)
        assert result.shape == (*shape, 16)
        assert 0.5 < result.std() < 5
        torch.testing.assert_close(list(given_), copies, rtol=0, atol=0)
        for dtype, limit in ((torch.float32, 1e-5), (torch.float16, 0.01), (torch.bfloat16, 0.08)):
            narrow = random_dit(dit.config, dtype=dtype)(*(x.to(dtype) for x in given_), 1000.0)
            assert narrow.dtype == dtype
            error = (narrow.double() - result).square().mean().sqrt() / result.std()
            assert error < limit, (shape, dtype)


def test_a_last_block_with_separate_weights_has_none_for_what_it_does_not_do() -> None:
    for kind, wanted in (("3b", {"attn"}), ("7b", {"attn", "mlp", "ada"})):
        last = SeedVr2Dit(tiny_dit_config(kind, layers=2, separate_layers=2)).blocks[1]
        assert {n.split(".")[0] for n, _ in last.named_parameters() if ".txt" in n} == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_same_window_sees_a_token_in_one_layer(kind: str) -> None:
    dit = random_dit(tiny_dit_config(kind, layers=1, separate_layers=1))
    latent, text = random_inputs(dit.config, (5, 4, 4))
    changed = latent.clone()
    changed[3, :2, :2] += 1
    differs = (dit(changed, text, 1000.0) != dit(latent, text, 1000.0)).flatten(1).any(1)
    inside = next(w for w in windows((5, 2, 2), dit.config.window, False) if w.t0 <= 3 < w.t1)
    assert differs.tolist() == [inside.t0 <= t < inside.t1 for t in range(5)]
