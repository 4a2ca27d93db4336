"""What is done around a job on a GPU, with a simulated GPU."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.core.control import Control
from engine.core.errors import JobError
from engine.core.geometry import Size
from engine.hardware import gpu_reading, shared_memory
from engine.hardware.spill_guard import SURE_BYTES, Spilled
from engine.models.lite.plan import LitePlan
from engine.pipeline import context as pipeline_context
from engine.pipeline import gpu_guard
from engine.pipeline.context import JobContext, MemoryReleased
from engine.pipeline.gpu_guard import cared_for
from engine.protocol.events import Event
from tests.helpers.plans import a_media, a_plan

GIB = 2**30


class Ears:
    def emit(self, event: Event) -> None:
        """Drop the event."""


def a_context(**changes: Any) -> JobContext:
    about = {"job_id": "a", "media": a_media(), "plan": a_plan(**changes)}
    return JobContext(**about, control=Control(), events=Ears())


def on_gpu(**changes: Any) -> JobContext:
    frame = Size(640, 360)
    work = LitePlan(device="cuda", frame=frame, tile=Size(400, 200), clip_frames=2)
    return a_context(work=work, device_limit_bytes=4 * GIB, **changes)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls that reach a simulated GPU of 8 GiB on Windows."""
    calls: list[Any] = []
    about = SimpleNamespace(total_memory=8 * GIB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: about)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, _device: calls.append(share)
    )
    monkeypatch.setattr(gpu_guard, "free_memory", lambda: calls.append("freed"))
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: 0)
    return calls


def test_a_job_on_a_gpu_is_limited_watched_and_given_back(gpu: list[Any]) -> None:
    context = on_gpu()
    with pytest.raises(JobError), cared_for(context):
        assert gpu == [0.5]
        assert context.guard is not None
        assert context.gpu_users is gpu_reading.other_programs
        raise JobError("running")
    assert gpu == [0.5, 1.0, "freed"]


def test_a_job_on_a_processor_is_left_alone_and_only_windows_is_watched(
    gpu: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = a_context()
    with cared_for(context):
        assert not context.releases_memory
        assert context.guard is None
    assert gpu == ["freed"]
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: None)
    context = on_gpu()
    with cared_for(context):
        assert context.guard is None


def test_the_guard_sees_spilling_and_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    context = on_gpu()
    with cared_for(context):
        context.check("tile")
        monkeypatch.setattr(shared_memory, "own_bytes", lambda: SURE_BYTES)
        time.sleep(0.25)  # it does not ask more often
        with pytest.raises(Spilled):
            context.check("tile")
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: 0)
    context = on_gpu()
    with cared_for(context):
        context.check()
        context.control.pause()
        threading.Timer(0.05, context.control.resume).start()
        context.check()  # a short pause costs nothing
        monkeypatch.setattr(pipeline_context, "SHORT_PAUSE_S", 0.05)
        context.control.pause()
        threading.Timer(0.2, context.control.resume).start()
        context.check(may_end=False)  # where all would have to be done again
        context.control.pause()
        with pytest.raises(MemoryReleased):
            context.check()
