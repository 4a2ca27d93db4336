import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from engine.ops.kernels import driver, nvrtc


class Library:
    """A driver that records its calls; what `refused` names fails."""

    def __init__(self, refused: str = "", code: int = 700) -> None:
        self.refused, self.code = refused, code
        self.calls: list[str] = []
        self.context: list[int] = []
        self.launched: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def function(*args: Any) -> int:
            self.calls.append(name)
            if name == self.refused:
                return self.code
            getattr(self, f"_{name}", lambda *_: None)(*args)
            return 0

        if name.startswith("_"):
            raise AttributeError(name)
        return function

    def _cuGetErrorString(self, code: int, text: Any) -> None:
        text._obj.value = b"an illegal memory access" if code == 700 else None

    def _cuDevicePrimaryCtxRetain(self, context: Any, _: Any) -> None:
        context._obj.value = 77

    def _cuCtxPushCurrent_v2(self, context: ctypes.c_void_p) -> None:
        self.context.append(context.value or 0)

    def _cuCtxPopCurrent_v2(self, _: Any) -> None:
        self.context.pop()

    def _cuModuleGetFunction(self, function: Any, _: Any, name: bytes) -> None:
        function._obj.value = len(name)

    def _cuLaunchKernel(self, function: ctypes.c_void_p, *rest: Any) -> None:
        assert self.context == [77]
        *sizes, shared, stream, arguments, extra = rest
        value = ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int)).contents.value
        self.launched.append((function.value, *sizes, shared, stream.value, value, extra))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    stream = SimpleNamespace(cuda_stream=55)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    for cached in (driver.driver, driver._primary):
        cached.cache_clear()
    yield
    for cached in (driver.driver, driver._primary):
        cached.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, library: Library) -> Library:
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda name: library)
    return library


def test_a_launch_goes_into_torchs_context_and_stream(monkeypatch):
    library = use(monkeypatch, Library())
    module = driver.Module(b"cubin", 0)
    for _ in range(2):
        module.launch("put", ((4, 5, 1), (32, 8, 1), 96), [ctypes.c_int(9)])
    assert library.launched == 2 * [(3, 4, 5, 1, 32, 8, 1, 96, 55, 9, None)]
    assert library.context == []
    for once in ("cuInit", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction"):
        assert library.calls.count(once) == 1


def test_a_refusal_has_the_text_of_the_driver_and_leaves_the_context(monkeypatch):
    for refused in ("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"):
        driver.driver.cache_clear()
        library = use(monkeypatch, Library(refused))
        with pytest.raises(driver.DriverFailed, match=f"{refused}: an illegal memory access"):
            driver.Module(b"cubin", 0).launch("put", ((1, 1, 1), (1, 1, 1), 0), [ctypes.c_int(9)])
        assert library.context == []


def test_a_lack_of_memory_is_that_of_torch(monkeypatch):
    library = use(monkeypatch, Library("cuModuleLoadData", code=2))
    with pytest.raises(torch.OutOfMemoryError, match="cuModuleLoadData"):
        driver.Module(b"cubin", 0)
    library.refused = ""
    driver.Module(b"cubin", 0).launch("put", ((1, 1, 1), (1, 1, 1), 0), [ctypes.c_int(9)])
    assert library.context == []


def test_an_error_without_text_has_its_number(monkeypatch):
    library = use(monkeypatch, Library("cuInit"))
    monkeypatch.setattr(library, "_cuGetErrorString", lambda code, text: None, raising=False)
    with pytest.raises(driver.DriverFailed, match="cuInit: error 700"):
        driver.driver()


def test_without_a_driver_the_reason_is_clear(monkeypatch):
    monkeypatch.setattr(driver.ctypes, "CDLL", Mock(side_effect=OSError("no such file")))
    with pytest.raises(driver.DriverFailed, match="no NVIDIA driver"):
        driver.driver()


@pytest.mark.real_gpu("there is no driver")
@pytest.mark.gpu
def test_a_kernel_writes_on_a_gpu(monkeypatch):
    monkeypatch.undo()
    text = 'extern "C" __global__ void put(int *at, int value) { at[threadIdx.x] = value; }'
    major, minor = torch.cuda.get_device_capability(0)
    module = driver.Module(nvrtc.compile_cuda(text, f"sm_{major}{minor}"), 0)
    values = torch.zeros(8, dtype=torch.int32, device="cuda")
    arguments = [ctypes.c_void_p(values.data_ptr()), ctypes.c_int(7)]
    module.launch("put", ((1, 1, 1), (5, 1, 1), 0), arguments)
    assert values.tolist() == [7, 7, 7, 7, 7, 0, 0, 0]
