from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.ops.attention.qk_rope import HeadNorm, Placement, gather_qk
from engine.ops.kernels import heads
from engine.ops.kernels.build import DTYPES
from engine.ops.kernels.heads import HeadWork, Triple, vector_of

GPU = torch.device("cuda", 0)


class Case:
    """q, k, v of some tokens; angles of fewer rows; a row in larger buffers for each token."""

    def __init__(
        self, dtype: torch.dtype, *, count: int = 7, channels: int = 32, pairs: int = 15
    ) -> None:
        self.count, self.channels = count, channels
        self.qkv = (torch.randn(count, 3, 3, channels) * 3).to(dtype)
        angles = torch.rand(count, pairs) * 6
        self.cos, self.sin = angles.cos(), angles.sin()
        self.norm = HeadNorm(torch.rand(channels) + 0.5, torch.rand(channels) + 0.5, 1e-5)

    def rows(self, count: int) -> Triple:
        shape = 3, count + 1, 3, self.channels
        q, k, v = torch.full(shape, 77.0, dtype=self.qkv.dtype, device=self.qkv.device)
        return q[1:], k[1:], v[1:]

    def check(self, placement: Placement, rows: int) -> None:
        found, wanted = self.rows(rows), self.rows(rows)
        gather_qk(self.qkv, placement, self.norm, wanted, kernels=False)
        gather_qk(self.qkv, placement, self.norm, found)
        eps = 2 * max(torch.finfo(self.qkv.dtype).eps, 1e-6)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=eps, atol=eps)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_source_places_each_token_and_copies_text_after_every_window(dtype):
    case = Case(dtype)
    case.check(Placement(torch.randperm(9)[:7], case.cos, case.sin), 9)
    case.check(Placement(torch.randperm(23)[:21].view(3, 7)), 23)


@pytest.mark.usefixtures("_launched")
def test_the_source_turns_by_the_row_that_is_named():
    for pairs in (1, 15, 16):
        case, angle = Case(torch.float32, pairs=pairs), torch.randint(0, 4, (7,))
        case.check(Placement(torch.randperm(7), case.cos[:4], case.sin[:4], angle), 7)


@pytest.mark.usefixtures("_launched")
def test_the_source_takes_narrow_heads_and_more_than_a_block_has():
    case = Case(torch.float16, count=37, channels=64, pairs=30)
    case.check(Placement(torch.randperm(40)[:37], case.cos, case.sin), 40)
    for channels in (4, 8, 16):
        case = Case(torch.float32, channels=channels, pairs=channels // 2)
        case.check(Placement(torch.randperm(7), case.cos, case.sin), 7)


@pytest.mark.usefixtures("_launched")
def test_the_source_reads_and_writes_views():
    case = Case(torch.float16)
    wide = torch.zeros(7, 3, 4, 40, dtype=torch.float16)[:, :, 1:, 8:]
    case.qkv = wide.copy_(case.qkv)
    case.rows = lambda count: tuple(
        torch.full((count, 4, 36), 77.0, dtype=torch.float16)[:, 1:, 4:] for _ in range(3)
    )
    case.check(Placement(torch.randperm(9)[:7], case.cos, case.sin), 9)


@pytest.mark.usefixtures("_launched")
def test_the_source_reaches_beyond_two_billion_values(tmp_path):
    case, pitch = Case(torch.float16, count=3), 2**31 + 8

    def far(name: str) -> Tensor:
        path, size = str(tmp_path / name), 2 * pitch + 9 * 32
        return torch.from_file(path, shared=True, size=size, dtype=torch.float16)

    qkv = far("qkv").as_strided((3, 3, 3, 32), (pitch, 96, 32, 1)).copy_(case.qkv)
    found = tuple(far(name).as_strided((3, 3, 32), (pitch, 32, 1)) for name in ("q", "k", "v"))
    wanted = case.rows(3)
    placement = Placement(torch.tensor([2, 0, 1]), case.cos, case.sin)
    gather_qk(case.qkv, placement, case.norm, wanted, kernels=False)
    gather_qk(qkv, placement, case.norm, found)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)


def work(qkv: Tensor) -> HeadWork:
    count, _, some, channels = qkv.shape
    q, k, v = qkv.new_zeros(3, count, some, channels)
    weights = torch.ones(channels), torch.ones(channels)
    return HeadWork(qkv, torch.arange(count)[None], None, None, weights, 1e-5, (q, k, v))


def test_heads_are_read_sixteen_bytes_at_once_and_what_does_not_fit_is_left():
    assert vector_of(work(torch.zeros(5, 3, 2, 128, dtype=torch.float16))) == 8
    assert vector_of(work(torch.zeros(5, 3, 2, 132, dtype=torch.float16)[..., 4:])) == 4
    good = work(torch.zeros(5, 3, 2, 32))
    assert vector_of(good) == 4
    assert heads.find(good) is None  # on the processor
    assert vector_of(work(torch.zeros(5, 3, 2, 24))) == 0  # six lanes
    assert vector_of(work(torch.zeros(5, 3, 2, 256))) == 0  # more than a warp
    assert vector_of(work(torch.zeros(5, 3, 2, 33)[..., 1:])) == 0
    assert vector_of(work(torch.zeros(0, 3, 2, 32))) == 0
    assert vector_of(replace(good, out=tuple(x.half() for x in good.out))) == 0
    target = good.target
    for other in (target.int(), target.expand(70_000, 5), target[:0]):
        assert vector_of(replace(good, target=other)) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads_and_pairs", [(20, 63), (24, 30), (3, 0)])
def test_the_kernel_equals_the_reference_on_a_gpu(dtype, heads_and_pairs):
    assert heads.working(GPU, dtype)
    (some, pairs), count = heads_and_pairs, 405
    qkv = torch.randn(count, 3, some, 128, device=GPU).to(dtype)
    norm = HeadNorm(*(torch.rand(2, 128, device=GPU) + 0.5), 1e-5)
    angles = torch.rand(200, pairs, device=GPU) * 9
    angle = torch.randint(0, 200, (count,), device=GPU)
    target = torch.randperm(900, device=GPU)[: 2 * count].view(2, count)
    turns = (angles.cos(), angles.sin()) if pairs else (None, None)
    placement = Placement(target, *turns, angle)
    found, wanted = (torch.zeros(3, 900, some, 128, dtype=dtype, device=GPU) for _ in range(2))
    gather_qk(qkv, placement, norm, tuple(found))
    gather_qk(qkv, placement, norm, tuple(wanted), kernels=False)
    eps = 2 * max(torch.finfo(dtype).eps, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=eps, atol=eps)
