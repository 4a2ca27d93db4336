import json
import threading
from unittest.mock import Mock

import pytest
import torch

from engine.core import gpu_loss, paths
from engine.ops.attention import attention
from engine.ops.attention.attention import Problem, fastest_of, measure, rounded
from engine.ops.attention.backends import Backend
from engine.ops.conv import trial

CPU = torch.device("cpu")


def backend(name: str) -> Backend:
    return Backend(name=name, run=lambda q, k, v, scale: q)


def problem(length: int = 64) -> Problem:
    return Problem(device=CPU, dtype=torch.float32, head_dim=8, length=length)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What each backend takes; asking counts under its name."""
    table = {"first": 1.0, "second": 0.5, "asked": 0}

    def measured(_: Problem, candidates: list[Backend]) -> dict[str, float]:
        table["asked"] += 1
        return {one.name: table[one.name] for one in candidates}

    monkeypatch.setattr(attention, "measure", measured)
    return table


BOTH = [backend("first"), backend("second")]


def test_it_is_measured_once_and_kept_on_disk(seconds: dict[str, float]) -> None:
    assert fastest_of(problem(), BOTH[:1], "exact") == "first"
    assert seconds["asked"] == 0  # one candidate needs no measurement
    assert fastest_of(problem(), BOTH, "exact") == "second"
    seconds["second"] = 2.0
    assert fastest_of(problem(), BOTH, "exact") == "second"
    assert seconds["asked"] == 1
    (entry,) = json.loads((paths.cache_folder() / "attention.json").read_text()).values()
    assert entry["fastest"] == "second"
    assert not list(paths.cache_folder().glob("tmp*"))
    seconds["second"] = 0.99  # not clearly faster: the first stays
    assert fastest_of(problem(128), BOTH, "exact") == "first"  # another problem, kind or package
    fastest_of(problem(), BOTH, "any")
    fastest_of(problem(), [*BOTH[::-1]], "exact")
    assert seconds["asked"] == 4


def test_a_corrupt_file_is_measured_again(seconds: dict[str, float]) -> None:
    path = paths.cache_folder() / "attention.json"
    path.parent.mkdir(parents=True)
    gone = json.dumps({f"{problem().key}, exact": {"of": ["first"], "fastest": "gone"}})
    for number, content in enumerate(("", "{", "[]", '{"key": 3}', gone), 1):
        path.write_text(content)
        assert fastest_of(problem(), BOTH, "exact") == "second"
        assert fastest_of(problem(), BOTH, "exact") == "second"
        assert seconds["asked"] == number


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(seconds: dict[str, float]) -> None:
    paths.cache_folder().parent.mkdir(parents=True, exist_ok=True)
    paths.cache_folder().write_text("a file where the folder should be")
    assert fastest_of(problem(), BOTH, "exact") == "second"


def test_a_failure_of_all_is_not_kept(seconds: dict[str, float]) -> None:
    seconds["first"] = seconds["second"] = float("inf")
    assert fastest_of(problem(), BOTH, "exact") == "first"
    seconds["second"] = 0.5
    assert fastest_of(problem(), BOTH, "exact") == "second"


ERRORS = RuntimeError("no kernel"), NotImplementedError(), ValueError("heads"), AssertionError()


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_what_fails_takes_forever(error: Exception) -> None:
    failing = Backend(name="failing", run=Mock(side_effect=error))
    found = measure(problem(), [failing, backend("plain")])
    assert found["failing"] == float("inf")
    assert 0 < found["plain"] < 1


LACKS = torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")


@pytest.mark.parametrize("error", LACKS, ids=repr)
def test_a_lack_of_memory_is_no_verdict(error: Exception) -> None:
    greedy = Backend(name="greedy", run=Mock(side_effect=error))
    with pytest.raises(type(error)):
        fastest_of(problem(), [backend("plain"), greedy], "exact")
    assert fastest_of(problem(), [backend("plain"), backend("greedy")], "exact")
    (entry,) = json.loads((paths.cache_folder() / "attention.json").read_text()).values()
    assert "inf" not in entry["milliseconds"]


def test_lengths_are_rounded_to_powers_of_two() -> None:
    lengths = {1: 64, 64: 64, 90: 64, 92: 128, 128: 128, 521: 512, 2546: 1024}
    assert {length: rounded(length, CPU) for length in lengths} == lengths
    assert rounded(2546, torch.device("cuda")) == 2048
    assert rounded(10**6, torch.device("cuda")) == 4096


def test_the_loss_of_a_gpu_is_no_verdict_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> float:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(gpu_loss, "_lost", threading.Event())
    monkeypatch.setattr(attention, "seconds_of", lost)
    with pytest.raises(RuntimeError, match="launch failure"):
        attention._seconds(Mock(), (torch.ones(1),) * 3)
    monkeypatch.setattr(trial, "seconds_of", lost)
    monkeypatch.setattr(trial, "_error", lambda *_: 0.0)
    layer = trial.LayerKind((4, 4, 3, 3, 3))
    problem = trial._problem(torch.device("cpu"), torch.float32, layer)
    with pytest.raises(RuntimeError, match="launch failure"):
        trial._try(problem, "3d")
