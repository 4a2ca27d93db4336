"""Cases that go wrong, each in its own manner, for the test of the harness."""

from __future__ import annotations

import os
import time

from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import CRASH, HANG, INTERNAL, MEMORY, OK, Outcome, outcome_of


class WrongCases(Group):
    """The kind of a case is its row."""

    name = "wrong"
    rows = (OK, INTERNAL, CRASH, HANG, MEMORY)
    usual = 5
    limit_s = 1.0
    memory = 50 * 2**20

    def run(self, number: int) -> Outcome:
        """End as the row says."""
        match self.row(number):
            case "internal error":
                return outcome_of(lambda: dict[str, int]()["missing"])
            case "crash":
                os.abort()
            case "hang":
                time.sleep(60)
            case "memory":
                bytearray(100 * 2**20)
        return Outcome(OK)
