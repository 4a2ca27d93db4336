"""Two tiles at once on a GPU: the bits of one after the other."""

import pytest
import torch

from tests.helpers.two_tiles import CASES

pytestmark = pytest.mark.gpu


@pytest.mark.real_gpu("the pretended one has tests of its own")
@pytest.mark.parametrize("name", CASES)
def test_two_at_once_give_the_bits_of_one_after_the_other(name: str) -> None:
    run, frame, about = CASES[name]
    with torch.inference_mode():
        run(1, frame, **about)  # cuDNN finds out which algorithms are the fastest
        wanted, found = run(1, frame, **about), run(2, frame, **about)
    assert torch.equal(found, wanted)
