from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.ops.attention.qk_rope import HeadNorm, Placement, gather_qk
from engine.ops.kernels import heads
from engine.ops.kernels.heads import HeadKernel, HeadWork, Triple, vector_of
from tests.helpers.kernels import HAS_COMPILER, host_heads, stand_in

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
CPU = torch.device("cpu")
CARD = torch.device("cuda", 0)

on_host = pytest.mark.skipif(not HAS_COMPILER, reason="no g++ to run the source with")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@pytest.fixture
def _on_host(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """The processor stands in for a card; a test that launches nothing fails."""
    launched = stand_in(monkeypatch, folder)
    yield
    assert launched, "the twin did the work"


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


# The very source, on the processor


@on_host
@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_the_source_places_each_token_in_its_row(dtype: torch.dtype) -> None:
    case = Case(dtype)
    case.check(Placement(torch.randperm(9)[:7], case.cos, case.sin), 9)


@on_host
@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_the_source_copies_text_after_every_window(dtype: torch.dtype) -> None:
    case = Case(dtype)
    case.check(Placement(torch.randperm(23)[:21].view(3, 7)), 23)


@on_host
@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("pairs", [1, 15, 16])
def test_the_source_turns_by_the_row_that_is_named(pairs: int) -> None:
    case = Case(torch.float32, pairs=pairs)
    angle = torch.randint(0, 4, (7,))
    case.check(Placement(torch.randperm(7), case.cos[:4], case.sin[:4], angle), 7)


@on_host
@pytest.mark.usefixtures("_on_host")
def test_the_source_takes_more_heads_than_a_block_has() -> None:
    case = Case(torch.float16, count=37, channels=64, pairs=30)
    case.check(Placement(torch.randperm(40)[:37], case.cos, case.sin), 40)


@on_host
@pytest.mark.usefixtures("_on_host")
@pytest.mark.parametrize("channels", [4, 8, 16])
def test_the_source_takes_narrow_heads(channels: int) -> None:
    case = Case(torch.float32, channels=channels, pairs=channels // 2)
    case.check(Placement(torch.randperm(7), case.cos, case.sin), 7)


@on_host
@pytest.mark.usefixtures("_on_host")
def test_the_source_takes_parts_of_a_projection() -> None:
    case = Case(torch.bfloat16)
    target = torch.randperm(14).view(2, 7)
    placement = Placement(target, case.cos, case.sin, torch.randperm(7))
    whole = case.rows(14)
    gather_qk(case.qkv, placement, case.norm, whole, kernels=False)
    parts = case.rows(14)
    for span in (slice(0, 3), slice(3, 7)):
        gather_qk(case.qkv[span], placement.part(span), case.norm, parts)
    for one, other in zip(parts, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


@on_host
@pytest.mark.usefixtures("_on_host")
def test_the_source_reads_and_writes_views() -> None:
    case = Case(torch.float16)
    wide = torch.zeros(7, 3, 4, 40, dtype=torch.float16)[:, :, 1:, 8:]
    case.qkv = wide.copy_(case.qkv)
    case.rows = lambda count: tuple(
        torch.full((count, 4, 36), 77.0, dtype=torch.float16)[:, 1:, 4:] for _ in range(3)
    )
    case.check(Placement(torch.randperm(9)[:7], case.cos, case.sin), 9)


@on_host
@pytest.mark.usefixtures("_on_host")
def test_the_source_reaches_beyond_two_billion_values(tmp_path: Path) -> None:
    case, pitch = Case(torch.float16, count=3), 2**31 + 8
    far = []
    for name in ("q", "k", "v", "qkv"):
        size = 2 * pitch + 9 * 32
        path = str(tmp_path / name)
        far.append(torch.from_file(path, shared=True, size=size, dtype=torch.float16))
    qkv = far[3].as_strided((3, 3, 3, 32), (pitch, 96, 32, 1)).copy_(case.qkv)
    q, k, v = (whole.as_strided((3, 3, 32), (pitch, 32, 1)) for whole in far[:3])
    wanted = case.rows(3)
    placement = Placement(torch.tensor([2, 0, 1]), case.cos, case.sin)
    gather_qk(case.qkv, placement, case.norm, wanted, kernels=False)
    gather_qk(qkv, placement, case.norm, (q, k, v))
    for one, other in zip((q, k, v), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)


# What fits


def work(qkv: Tensor) -> HeadWork:
    count, _, some, channels = qkv.shape
    q, k, v = qkv.new_zeros(3, count, some, channels)
    weights = torch.ones(channels), torch.ones(channels)
    return HeadWork(qkv, torch.arange(count)[None], None, None, weights, 1e-5, (q, k, v))


def test_heads_of_the_models_are_read_sixteen_bytes_at_once() -> None:
    assert vector_of(work(torch.zeros(5, 3, 2, 128, dtype=torch.float16))) == 8
    assert vector_of(work(torch.zeros(5, 3, 2, 128))) == 4
    assert vector_of(work(torch.zeros(5, 3, 2, 132, dtype=torch.float16)[..., 4:])) == 4


def test_what_does_not_fit_is_left_to_the_reference() -> None:
    good = work(torch.zeros(5, 3, 2, 32))
    assert vector_of(good) == 4
    assert vector_of(work(torch.zeros(5, 3, 2, 24))) == 0  # six lanes
    assert vector_of(work(torch.zeros(5, 3, 2, 256))) == 0  # more than a warp
    assert vector_of(work(torch.zeros(5, 3, 2, 33)[..., 1:])) == 0
    assert vector_of(work(torch.zeros(5, 3, 2, 32).double())) == 0
    assert vector_of(work(torch.zeros(0, 3, 2, 32))) == 0
    half = tuple(x.half() for x in good.out)
    assert vector_of(replace(good, out=half)) == 0
    assert vector_of(replace(good, target=good.target.int())) == 0
    assert vector_of(replace(good, target=good.target.expand(70_000, 5))) == 0
    assert vector_of(replace(good, target=good.target[:0])) == 0


def test_without_a_gpu_there_is_no_kernel(caplog: pytest.LogCaptureFixture) -> None:
    assert heads.find(work(torch.zeros(5, 3, 2, 32))) is None
    assert not heads.working(CPU)
    assert not caplog.records


# Trying the kernel at the start


class Deaf:
    """A module whose kernels do nothing."""

    def launch(self, *_: object) -> None:
        pass


@on_host
@pytest.mark.parametrize("works", [True, False])
def test_a_wrong_kernel_is_switched_off(
    works: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def compiled(_: torch.device, *rest: object) -> HeadKernel:
        return host_heads(folder, *rest) if works else HeadKernel(Deaf())

    measured = heads._error
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(heads, "_error", lambda k, _, *rest: measured(k, CPU, *rest))
    monkeypatch.setattr(heads, "_compile", compiled)
    for cached in (heads.working, heads._load):
        cached.cache_clear()
    assert heads.working(CARD) == works
    assert len(caplog.records) == (not works)
    for cached in (heads.working, heads._load):
        cached.cache_clear()


# On a card


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("heads_and_pairs", [(20, 63), (24, 30), (3, 0)])
def test_the_kernel_equals_the_reference_on_a_gpu(
    dtype: torch.dtype, heads_and_pairs: tuple[int, int]
) -> None:
    assert heads.working(CARD)
    (some, pairs), count = heads_and_pairs, 405
    qkv = torch.randn(count, 3, some, 128, device=CARD).to(dtype)
    norm = HeadNorm(*(torch.rand(2, 128, device=CARD) + 0.5), 1e-5)
    angles = torch.rand(200, pairs, device=CARD) * 9
    angle = torch.randint(0, 200, (count,), device=CARD)
    target = torch.randperm(900, device=CARD)[: 2 * count].view(2, count)
    turns = (angles.cos(), angles.sin()) if pairs else (None, None)
    placement = Placement(target, *turns, angle)
    found, wanted = (torch.zeros(3, 900, some, 128, dtype=dtype, device=CARD) for _ in range(2))
    gather_qk(qkv, placement, norm, tuple(found))
    gather_qk(qkv, placement, norm, tuple(wanted), kernels=False)
    eps = 2 * max(torch.finfo(dtype).eps, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=eps, atol=eps)
