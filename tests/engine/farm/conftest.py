from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.farm import identity
from tests.helpers.farm import Waiting, folder_of_thread


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Waiting]]:
    """Makes computers that wait to be paired."""
    monkeypatch.setattr(identity, "_folder", folder_of_thread)
    made: list[Waiting] = []

    def make(name: str = "waiting", answer: bool | None = True) -> Waiting:
        made.append(Waiting(tmp_path / name, answer))
        return made[-1]

    yield make
    for one in made:
        one.close()
