import errno
import gc
import threading
import weakref

import torch

from engine.core.errors import OutOfMemory, UnreadableMedia, WeightsUnreadable
from engine.hardware.out_of_memory import (
    forget_frames,
    free_memory,
    is_of_driver,
    is_of_main_memory,
    is_out_of_memory,
)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def windows_error(number: int) -> OSError:
    error = OSError("from Windows")
    error.winerror = number
    return error


REFUSALS = (
    torch.OutOfMemoryError("CUDA out of memory"),
    MemoryError(),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    RuntimeError("unable to mmap 8 bytes: Cannot allocate memory (12)"),
    RuntimeError("can't start new thread"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    *map(windows_error, (8, 14, 1455)),
    OutOfMemory("decoding", name="a.mkv"),
    caused(WeightsUnreadable("disk", name="a"), OSError(errno.ENOMEM, "no")),
    caused(
        UnreadableMedia("undecodable", name="a"),
        caused(WeightsUnreadable("disk", name="b"), MemoryError()),
    ),
)
OTHERS = (
    RuntimeError("shapes do not match"),
    OSError(errno.ENOSPC, "No space left on device"),
    windows_error(112),
    UnreadableMedia("undecodable", name="out of memory.mkv"),
    caused(ValueError("not ours"), MemoryError()),
    KeyError("out of memory"),
)


def test_a_refusal_by_the_driver_itself_is_told_from_that_of_the_allocator() -> None:
    found = [str(error) for error in (*REFUSALS, *OTHERS) if is_of_driver(error)]
    assert found == [
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
    ]


def test_want_of_memory_is_recognised() -> None:
    assert [error for error in REFUSALS if not is_out_of_memory(error)] == []
    assert [error for error in OTHERS if is_out_of_memory(error)] == []


def test_main_memory_and_gpu_memory_are_distinguished() -> None:
    assert is_of_main_memory(MemoryError())
    assert is_of_main_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_of_main_memory(torch.OutOfMemoryError("CUDA out of memory"))


class Thing:
    pass


def broken(seen: list[weakref.ref[Thing]]) -> None:
    held = Thing()
    seen.append(weakref.ref(held))

    def inside() -> None:
        _ = held  # a closure keeps it too
        raise MemoryError

    try:
        inside()
    except MemoryError as err:
        raise OutOfMemory("running") from err


def test_an_error_without_frames_keeps_nothing() -> None:
    seen: list[weakref.ref[Thing]] = []
    kept: list[Exception] = []

    def work() -> None:
        try:
            broken(seen)
        except OutOfMemory as err:
            kept.append(err)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert seen[0]() is not None, "errors do hold their frames"
    text = forget_frames(kept[0])
    free_memory()
    assert seen[0]() is None
    assert "in broken" in text
    assert "in inside" in text
    assert kept[0].args == ("running",)
