"""Two tiles at once: the bits of one after the other, reported in the same order."""

import pytest
import torch

from tests.helpers.two_tiles import CASES

GPU = (pytest.mark.gpu, pytest.mark.real_gpu("the pretended one has tests of its own"))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("name", CASES)
def test_two_at_once_give_the_bits_of_one_after_the_other(name: str, device: str) -> None:
    run, frame, about = CASES[name]
    with torch.inference_mode():
        if device == "cuda":  # cuDNN finds out which algorithms are the fastest
            run(1, frame, device, **about)
        wanted, found = (run(at_once, frame, device, **about) for at_once in (1, 2))
    assert torch.equal(found, wanted)
