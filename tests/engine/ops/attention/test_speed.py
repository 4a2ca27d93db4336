from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from engine.core import paths
from engine.ops.attention import speed
from engine.ops.attention.backends import Backend
from engine.ops.attention.speed import Problem, choose, measure, rounded

CPU = torch.device("cpu")


def plain(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return q


def backend(name: str) -> Backend:
    return Backend(name=name, run=plain)


def problem(length: int = 64) -> Problem:
    return Problem(device=CPU, dtype=torch.float32, head_dim=8, length=length)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What each backend takes; asking counts under its name."""
    table = {"first": 1.0, "second": 0.5, "asked": 0}

    def measured(_: Problem, candidates: list[Backend]) -> dict[str, float]:
        table["asked"] += 1
        return {one.name: table[one.name] for one in candidates}

    monkeypatch.setattr(speed, "measure", measured)
    return table


BOTH = [backend("first"), backend("second")]


def test_it_is_measured_once_and_kept_on_disk(seconds: dict[str, float]) -> None:
    assert choose(problem(), BOTH, "exact") == "second"
    seconds["second"] = 2.0
    assert choose(problem(), BOTH, "exact") == "second"
    assert seconds["asked"] == 1
    (entry,) = json.loads((paths.cache_folder() / "attention.json").read_text()).values()
    assert entry["fastest"] == "second"
    assert not list(paths.cache_folder().glob("tmp*"))


def test_another_problem_or_kind_or_package_is_measured_again(seconds: dict[str, float]) -> None:
    choose(problem(), BOTH, "exact")
    choose(problem(128), BOTH, "exact")
    choose(problem(), BOTH, "any")
    choose(problem(), [*BOTH[::-1]], "exact")
    assert seconds["asked"] == 4


def test_the_first_stays_unless_another_is_clearly_faster(seconds: dict[str, float]) -> None:
    seconds["second"] = 0.99
    assert choose(problem(), BOTH, "exact") == "first"


def test_one_candidate_needs_no_measurement(seconds: dict[str, float]) -> None:
    assert choose(problem(), BOTH[:1], "exact") == "first"
    assert seconds["asked"] == 0


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"key": 3}', '{"%s": {"of": ["first"], "fastest": "gone"}}']
)
def test_a_corrupt_file_is_measured_again(content: str, seconds: dict[str, float]) -> None:
    path = paths.cache_folder() / "attention.json"
    path.parent.mkdir(parents=True)
    path.write_text(content.replace("%s", f"{problem().key}, exact"))
    assert choose(problem(), BOTH, "exact") == "second"
    assert choose(problem(), BOTH, "exact") == "second"
    assert seconds["asked"] == 1


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(seconds: dict[str, float]) -> None:
    paths.cache_folder().parent.mkdir(parents=True, exist_ok=True)
    paths.cache_folder().write_text("a file where the folder should be")
    assert choose(problem(), BOTH, "exact") == "second"


def test_a_lack_of_memory_is_not_kept(seconds: dict[str, float]) -> None:
    seconds["first"] = seconds["second"] = float("inf")
    assert choose(problem(), BOTH, "exact") == "first"
    seconds["second"] = 0.5
    assert choose(problem(), BOTH, "exact") == "second"


def test_what_fails_takes_forever() -> None:
    def failing(*_: object) -> Tensor:
        raise torch.OutOfMemoryError

    found = measure(problem(), [Backend(name="failing", run=failing), backend("plain")])
    assert found["failing"] == float("inf")
    assert 0 < found["plain"] < 1


def test_lengths_are_rounded_to_powers_of_two() -> None:
    assert [rounded(n, CPU) for n in (1, 64, 90, 92, 128, 521, 2546)] == [
        *(64, 64, 64, 128, 128, 512, 1024)
    ]
    assert rounded(2546, torch.device("cuda")) == 2048
    assert rounded(10**6, torch.device("cuda")) == 4096
