import gc
import weakref
from itertools import product
from unittest.mock import Mock

import pytest
import torch

from engine.ops.conv.workspace import Workspace

CPU = torch.device("cpu")


def make(*, planned: bool = True, channels_last: bool = True) -> Workspace:
    return Workspace(CPU, torch.float32, planned=planned, channels_last=channels_last)


def test_frames_have_their_shape_type_and_layout() -> None:
    shapes = [(2, 3, 4, 5), (1, 8, 6, 2), (3, 1, 1, 7), (0, 4, 5, 6)]
    for planned, channels_last, shape in product((True, False), (True, False), shapes):
        workspace = make(planned=planned, channels_last=channels_last)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        for frames in (workspace.frames("window", shape), workspace.fresh(shape)):
            assert frames.shape == shape
            assert frames.dtype == torch.float32
            assert frames.is_contiguous(memory_format=layout)


def test_one_purpose_has_one_stretch_as_large_as_its_largest_request() -> None:
    workspace = make()
    large = workspace.frames("window", (2, 3, 4, 5)).fill_(1)
    assert workspace.bytes_held == 4 * 120
    small = workspace.frames("window", (1, 5, 2, 2))
    assert small.data_ptr() == large.data_ptr()
    assert workspace.bytes_held == 4 * 120
    workspace.frames("other", (1, 2, 3, 4)).fill_(2)
    assert bool((large == 1).all())
    assert len(workspace._stretches) == 2
    workspace.frames("window", (3, 3, 4, 5))
    assert workspace.bytes_held == 4 * (180 + 24)
    workspace.release()
    assert workspace.bytes_held == 0
    workspace.frames("window", (1, 2, 3, 4))
    assert workspace.bytes_held == 4 * 24


def test_the_old_stretch_goes_before_the_larger_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = make()
    workspace.frames("window", (1, 2, 3, 4))
    (old,) = map(weakref.ref, workspace._stretches.values())
    gone = []
    take = Workspace._empty

    def taking(self: Workspace, size: int) -> torch.Tensor:
        gc.collect()
        gone.append(old() is None)
        return take(self, size)

    monkeypatch.setattr(Workspace, "_empty", taking)
    workspace.frames("window", (2, 2, 3, 4))
    assert gone == [True]


def test_a_refused_request_leaves_a_workspace_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = make()
    workspace.frames("window", (1, 2, 3, 4))
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "_empty", Mock(side_effect=torch.OutOfMemoryError))
        with pytest.raises(torch.OutOfMemoryError):
            workspace.frames("window", (9, 2, 3, 4))
    assert workspace.bytes_held == 0
    assert workspace.frames("window", (1, 2, 3, 4)).shape == (1, 2, 3, 4)


def test_without_planning_every_request_is_memory_of_its_own() -> None:
    workspace = make(planned=False)
    first, second = (workspace.frames("window", (1, 2, 3, 4)) for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    assert workspace.bytes_held == 0
    assert not workspace._stretches
