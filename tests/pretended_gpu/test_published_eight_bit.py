"""Rows of neighbours move several times the bytes of a convolution, for as many operations."""

import pytest

from engine.bench.eight_bit_conv import EightBit
from engine.core.geometry import Size
from tests.pretended_gpu.published_eight_bit import decode_step

pytestmark = pytest.mark.pretended_gpu


@pytest.mark.parametrize(
    "how",
    [EightBit("int8", "row"), pytest.param(EightBit("fp8", "tensor"), marks=pytest.mark.extended)],
)
def test_eight_bits_move_more_bytes_for_as_many_operations(how: EightBit) -> None:
    usual, narrow = (decode_step(Size(64, 64), one) for one in (None, how))
    assert narrow.gigabytes > 2 * usual.gigabytes
    assert narrow.teraflops == pytest.approx(usual.teraflops, rel=0.01)
    assert narrow.waits == 0
