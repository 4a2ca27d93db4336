"""Pieces of work that take turns; streams are tried on the pretended GPU."""

from collections.abc import Generator
from functools import partial

import pytest
import torch

from engine.ops.lanes import Lanes

CPU = torch.device("cpu")


def piece(log: list[str], name: str, parts: int, lane: int) -> Generator[None, None, str]:
    for part in range(parts):
        log.append(f"{name}{part} on {lane}")
        yield
    return name


def run(count: int, **parts: int) -> tuple[list[str], list[str]]:
    """What ran, and what came out, of pieces with so many parts."""
    log: list[str] = []
    pieces = [partial(piece, log, name, number) for name, number in parts.items()]
    return log, list(Lanes(CPU, count).run(pieces))


def test_one_lane_does_one_piece_after_the_other() -> None:
    log, results = run(1, a=2, b=1)
    assert log == ["a0 on 0", "a1 on 0", "b0 on 0"]
    assert results == ["a", "b"]


def test_two_lanes_take_turns_and_give_results_in_order() -> None:
    log, results = run(2, a=2, b=1, c=1)
    assert log == ["a0 on 0", "b0 on 1", "a1 on 0", "c0 on 0"]
    assert results == ["a", "b", "c"]


def test_no_third_piece_begins_before_the_results_of_two_were_taken() -> None:
    log: list[str] = []
    pieces = [partial(piece, log, name, 1) for name in "abc"]
    results = Lanes(CPU, 2).run(pieces)
    assert (next(results), next(results)) == ("a", "b")
    assert log == ["a0 on 0", "b0 on 1"]


def test_an_error_ends_all() -> None:
    log: list[str] = []

    def failing(lane: int) -> Generator[None, None, str]:
        yield
        raise InterruptedError

    pieces = [partial(piece, log, "a", 3), failing, partial(piece, log, "c", 1)]
    with pytest.raises(InterruptedError):
        list(Lanes(CPU, 2).run(pieces))
    assert log == ["a0 on 0", "a1 on 0"]
