"""What all groups of cases have; a case is a number, which is the seed of all its chances."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.trials.faults.outcomes import Outcome

HANG_S = 10.0


class Group(ABC):
    """Cases of one kind; runs in a worker process, which makes its sources once.

    Attributes:
        name: For `--only`.
        rows: Of the table; case n belongs to row n modulo their number.
        usual: Cases of a run of everything.
        limit_s: Longest time of a case; after it the worker is ended and the case hangs.
        memory: Bytes that a case may take for a moment; 0 for any.
    """

    name: ClassVar[str]
    rows: ClassVar[tuple[str, ...]]
    usual: ClassVar[int]
    limit_s: ClassVar[float] = HANG_S
    memory: ClassVar[int] = 0

    def __init__(self, folder: Path) -> None:
        """Make the sources in an empty folder of this worker's own."""
        self.folder = folder

    @classmethod
    def environment(cls, folder: Path) -> Mapping[str, str]:
        """Variables that a worker has to be started with.

        Raises:
            Unavailable: This machine cannot run these cases.
        """
        return {}

    @classmethod
    def row(cls, number: int) -> str:
        """Row of a case."""
        return cls.rows[number % len(cls.rows)]

    @abstractmethod
    def run(self, number: int) -> Outcome:
        """Run one case."""

    def chances(self, number: int) -> random.Random:
        """The generator of a case."""
        return random.Random(f"{self.name} {number}")


class Unavailable(Exception):
    """This machine cannot run the cases of a group; the text says why."""
