"""A worker with another device; a module of its own, since its process loads it."""

import pytest
from distributed import Worker

from engine.workers.worker import SpanWorker
from tests.helpers.choices import as_device


class OtherDevice(SpanWorker):
    """The second worker cannot add in place, and would prefer not to."""

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        as_device(pytest.MonkeyPatch(), adds_in_place=self._number != 1)
