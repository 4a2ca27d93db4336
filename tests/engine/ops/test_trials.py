import gc
import math
import weakref
from unittest.mock import Mock

import pytest
import torch

from engine.ops.trials import trial

WRONG = "it computes wrong results (error 2.0e-01)"


def test_a_trial_is_made_once_and_tells_what_is_wrong() -> None:
    error = Mock(__qualname__="error", side_effect=lambda value: value)
    fault = trial(0.1, ValueError)(error)
    assert [fault(value) for value in (0.1, 0.1, 0.2)] == ["", "", WRONG]
    assert fault(math.nan) == "it computes wrong results (error nan)"
    assert error.call_count == 3


def test_only_named_errors_are_a_verdict_and_a_lack_of_memory_is_none() -> None:
    error = Mock(__qualname__="error")
    fault = trial(lambda limit: limit, RuntimeError, words=lambda err, limit: f"{limit}: {err}")(
        error
    )
    error.side_effect = torch.OutOfMemoryError("no room")
    with pytest.raises(torch.OutOfMemoryError):
        fault(1)
    error.side_effect = KeyError
    with pytest.raises(KeyError):
        fault(1)
    error.side_effect = RuntimeError("no kernel")
    assert fault(1) == fault(1) == "1: no kernel"
    error.side_effect = lambda limit: 3.0
    assert (fault(2), fault(4)) == (WRONG.replace("2.0e-01", "3.0e+00"), "")


def test_a_failed_trial_keeps_none_of_its_tensors() -> None:
    made = list[weakref.ref[torch.Tensor]]()

    @trial(0.1, RuntimeError)
    def error() -> float:
        tensor = torch.empty(8)
        made.append(weakref.ref(tensor))
        raise RuntimeError("no kernel")

    gc.disable()
    try:
        assert error() == "no kernel"
        assert made[0]() is None
    finally:
        gc.enable()
