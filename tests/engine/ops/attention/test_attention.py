"""One contract for all backends; stand-ins compute for the packages and record their calls."""

from collections.abc import Iterator
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from engine.core.errors import ChoiceMissing, FeatureMissing
from engine.ops.attention import attention as module
from engine.ops.attention import backends
from engine.ops.attention.attention import (
    attend,
    error_of,
    fastest,
    literal,
    require,
    sample,
    working,
)
from engine.ops.attention.backends import BACKENDS, Backend
from engine.ops.choices import Choices, following
from tests.helpers.attention_packages import PACKAGES, Function, Package, install

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    caches = module.fault_of, module._fastest  # a test may put others in their places
    for cached in caches:
        cached.cache_clear()
    module._REFUSED.clear()
    yield
    for cached in caches:
        cached.cache_clear()


def tokens(windows: int = 2, length: int = 21, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [x.to(dtype) for x in sample((windows, 3, length, length), 32)]


def assert_same(found: Tensor, wanted: Tensor, limit: float = 1e-12) -> None:
    assert found.shape == wanted.shape
    error = (found.double() - wanted.double()).square().mean().sqrt()
    assert error <= limit * wanted.double().square().mean().sqrt()


def test_a_package_gets_its_layout_and_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name for name, backend in BACKENDS.items() if backend.package} == set(PACKAGES)
    q, k, v = tokens()
    for name, scale in product(PACKAGES, (None, 0.3)):
        module.fault_of.cache_clear()
        package = install(monkeypatch, name)
        if name.startswith("flash") and scale:
            package.result = lambda out: (out, out.sum())  # its sums too, in some versions
        found = attend(q, k, v, backend=name, scale=scale)
        assert_same(found, literal(q, k, v, scale or 32**-0.5))
        call, options = package.calls[-1], PACKAGES[name][3]
        assert call["shape"] == ((2, 3, 21, 32) if package.layout == "HND" else (2, 21, 3, 32))
        assert call["last"] == 1
        assert options.items() <= call.items()


def test_sage_3_takes_the_mean_off_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def centring(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        assert all(x.is_contiguous() for x in (q, k, v))
        k -= k.mean(-2, keepdim=True)
        return literal(q, k, v, q.shape[-1] ** -0.5)

    install(monkeypatch, "sage3-fp4", centring)
    q, k, v = (x.contiguous() for x in tokens())
    before = k.clone()
    assert_same(attend(q, k, v, backend="sage3-fp4"), literal(q, k, v, 32**-0.5))
    assert torch.equal(k, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_backend_is_the_formula_for_any_layout(dtype: torch.dtype) -> None:
    limit = 1e-5 if dtype == torch.float32 else 2e-2
    for name, (windows, length) in product([*working(CPU, dtype, 32), "auto"], ((1, 1), (3, 40))):
        q, k, v = tokens(windows, length, dtype)
        wanted = literal(q.double(), k.double(), v.double(), 32**-0.5)
        for given in ([q, k, v], [x.contiguous() for x in (q, k, v)], [q[:, :, :7], k, v]):
            before = [x.clone() for x in given]
            found = attend(*given, backend=name)
            assert found.dtype == dtype
            assert_same(found, wanted[:, :, : given[0].shape[2]], limit)
            assert all(torch.equal(x, old) for x, old in zip(given, before, strict=True))


def test_the_formula_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tokens(windows=4)
    for at_once in (1, 2, 5):
        monkeypatch.setattr(backends, "_SCORES_BYTES", at_once * 8 * 21 * 21)
        assert_same(attend(q, k, v, backend="math"), literal(q, k, v, 32**-0.5))


def test_torch_alone_is_enough_and_a_package_adds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set(working("cpu", torch.float32, 32))
    assert {"sdpa", "math"} <= found <= {"sdpa", "flash", "math"}
    module.fault_of.cache_clear()
    install(monkeypatch, "flash2")
    assert "flash2" in working(CPU, torch.float32, 32)


def test_a_package_that_fails_or_computes_wrongly_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def changing(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        out = Package("NHD")(q, k, v)
        q += 1
        return out

    failing = Mock(side_effect=AssertionError("head_dim must be 64. See the manual."))
    cases = [
        (failing, r"head_dim must be 64\."),
        (Package("NHD", result=lambda out: 1.1 * out), "computes wrong"),
        (Package("NHD", result=lambda out: out * torch.nan), "computes wrong"),
        (Package("HND"), "the result is|computes wrong|must match|size of tensor"),
        (Package("NHD", result=lambda out: out[:, 1:]), "the result is"),
        (Package("NHD", result=lambda out: out.double()), "the result is"),
        (changing, "changes what it is given"),
    ]
    for function, reason in cases:
        module.fault_of.cache_clear()
        install(monkeypatch, "flash2", function)
        assert "flash2" not in working(CPU, torch.float32, 32)
        with pytest.raises(FeatureMissing, match=reason):
            require("flash2", CPU, torch.float32, 32)


def test_an_inexact_package_may_be_off_but_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    for factor, works in ((1.5, False), (1.05, True)):
        module.fault_of.cache_clear()
        install(monkeypatch, "sage2", Package("HND", result=lambda out, f=factor: f * out))
        assert ("sage2" in working(CPU, torch.float32, 32)) == works
    shape = (1, 2, 40, 40)
    assert error_of("sage2", "cpu", torch.float32, 32, shape) == pytest.approx(0.05, rel=1e-3)
    assert error_of("math", "cpu", torch.float32, 32, shape) < 1e-5
    with pytest.raises(ImportError):
        error_of("xformers", "cpu", torch.float32, 32)


def test_a_choice_that_does_not_work_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FeatureMissing, match="package sageattn3 is not installed") as caught:
        attend(*tokens(), backend="sage3-fp4")
    assert "'sdpa' or 'auto'" in caught.value.hint
    install(monkeypatch, "sage2")
    module.fault_of.cache_clear()
    with pytest.raises(FeatureMissing) as caught:
        attend(*tokens(), backend="sage3-fp4")
    assert "'sage2' or 'auto'" in caught.value.hint
    with pytest.raises(ValueError, match="no attention backend is called 'sage9'"):
        attend(*tokens(), backend="sage9")


def refusing(limit: int) -> Function:
    """A package that takes short windows only, for which it is tried."""

    def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
        if k.shape[1] > limit:
            raise RuntimeError("no engine for this shape. Sorry.")
        return Package("NHD")(q, k, v, **options)

    return attention


def test_windows_that_a_choice_does_not_take_are_an_error_and_auto_takes_torch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch, "flash2", refusing(400))
    attend(*tokens(), backend="flash2")
    q, k, v = tokens(length=401)
    with pytest.raises(FeatureMissing, match="windows of 401 tokens: no engine for this shape"):
        attend(q, k, v, backend="flash2")
    timed(monkeypatch, flash2=0.1)
    for _ in range(2):
        assert_same(attend(q, k, v), literal(q, k, v, 32**-0.5))
    (record,) = caplog.records
    assert "flash2 refuses" in record.getMessage()


def test_a_lack_of_memory_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = Mock(side_effect=torch.OutOfMemoryError("out of memory"))
    working(CPU, torch.float64, 32)
    for name in ("sdpa", "math", "flash"):
        monkeypatch.setitem(BACKENDS, name, Backend(name=name, run=greedy))
    monkeypatch.setattr(module, "require", lambda *_: None)
    monkeypatch.setattr(module, "_fastest", lambda *_: "math")
    for name in ("math", "auto"):
        with pytest.raises(torch.OutOfMemoryError):
            attend(*tokens(), backend=name)


def timed(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> list[list[str]]:
    """Replace the measurement; every other backend takes a second."""
    measured: list[list[str]] = []

    def measure(problem: Any, candidates: list[Backend]) -> dict[str, float]:
        measured.append([backend.name for backend in candidates])
        return {backend.name: seconds.get(backend.name, 1.0) for backend in candidates}

    monkeypatch.setattr(module, "measure", measure)
    return measured


def test_auto_is_the_fastest_exact_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {name: install(monkeypatch, name) for name in ("sage2", "flash2")}
    measured = timed(monkeypatch, sage2=0.1, flash2=0.5)
    assert fastest("cpu", torch.float32, 32, 100) == "flash2"
    assert fastest("cpu", torch.float32, 32, 100, allow_inexact=True) == "sage2"
    kinds = [("math" in names, "sage2" in names) for names in measured]
    assert kinds == [(False, False), (False, True)]
    working(CPU, torch.float64, 32)
    before = len(packages["flash2"].calls)
    attend(*tokens())
    assert len(packages["flash2"].calls) == before + 1


def test_a_job_keeps_its_backend_where_another_one_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case of a new driver or another GPU; without the package it is refused."""
    job, package = Choices(), install(monkeypatch, "flash2")
    timed(monkeypatch, flash2=0.5)
    with following(job):
        attend(*tokens())
    assert list(job.known.values()) == ["flash2"]
    module._fastest.cache_clear()
    module.RESULTS.path.unlink()
    measured = timed(monkeypatch, sdpa=0.1)
    before = len(package.calls)
    with following(Choices(job.known)):
        attend(*tokens())
    assert len(package.calls) == before + 1
    assert not measured
    assert fastest("cpu", torch.float64, 32, 21) == "sdpa"
    monkeypatch.setattr(module, "fault_of", lambda *_: "the package is not installed")
    with following(Choices(job.known)), pytest.raises(ChoiceMissing, match="by “flash2”"):
        attend(*tokens())


def test_where_nothing_else_works_the_formula_does(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"math": ""}
    monkeypatch.setattr(module, "fault_of", lambda backend, *_: fault.get(backend.name, "no"))
    assert fastest("cpu", torch.float32, 32, 100) == "math"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_backends_of_a_gpu_are_the_formula(dtype: torch.dtype) -> None:
    names = working(GPU, dtype, 128)
    assert {"sdpa", "math", "efficient"} <= set(names)
    for name in (*names, "auto"):
        q, k, v = (x.to(GPU, dtype) for x in sample((3, 20, 463, 521), 128))
        wanted = literal(q.double(), k.double(), v.double(), 128**-0.5)
        exact = name == "auto" or BACKENDS[name].is_exact
        assert_same(attend(q, k, v, backend=name), wanted, 3e-2 if exact else 0.3)


@pytest.mark.real_gpu("nothing has a speed")
@pytest.mark.gpu
def test_auto_of_a_gpu_is_no_slower_than_torchs_own_choice() -> None:
    chosen = fastest(GPU, torch.float16, 128, 521)
    problem = module.Problem(device=GPU, dtype=torch.float16, head_dim=128, length=512)
    found = module.measure(problem, [BACKENDS["sdpa"], BACKENDS[chosen]])
    assert found[chosen] <= 1.1 * found["sdpa"]
