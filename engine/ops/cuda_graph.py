"""CUDA graphs: work of one shape, recorded once and replayed without the processor.

Not yet run on a GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

Work = Callable[[Tensor], Tensor]
Replay = Callable[[], None]
_WARM_UPS = 2  # cuDNN chooses its algorithms, kernels are compiled, buffers find their size


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One recorded piece of work.

    Attributes:
        given: What the work reads; filled before each replay.
        result: What it wrote.
        replay: Runs it again.
        held: Other memory that the recording uses, kept alive.
    """

    given: Tensor
    result: Tensor
    replay: Replay
    held: object


class GraphedCalls:
    """Calls of a function, recorded for the shapes that come most recently.

    What cannot be recorded is launched as usual from then on, with one warning.

    Args:
        work: Pure but for buffers that it uses again; no synchronisation inside.
        held: Gives the buffers of others that the work uses, to be kept alive.
        record: Runs its first argument while recording; replaced in tests.
        most: Shapes that are kept.

    Memory: for each shape its input, its result and everything the work allocates.
    """

    def __init__(
        self,
        work: Work,
        held: Callable[[], object],
        record: Callable[[Callable[[], Tensor]], tuple[Tensor, Replay]] | None = None,
        *,
        most: int = 2,
    ) -> None:
        self._work, self._held = work, held
        self._record = record or record_on_gpu
        self._most = most
        self._recordings: dict[tuple[int, ...], Recording] = {}
        self._works = True

    def __call__(self, given: Tensor) -> Tensor:
        """The result of the work on `given`, in memory of its own."""
        shape = tuple(given.shape)
        recording = self._recordings.pop(shape, None)
        if recording is None and self._works:
            recording = self._recorded(given)
        if recording is None:
            return self._work(given)
        self._recordings[shape] = recording
        recording.given.copy_(given)
        recording.replay()
        return recording.result.clone(memory_format=torch.preserve_format)

    def forget(self) -> None:
        """Free the memory of all recordings."""
        self._recordings.clear()

    def _recorded(self, given: Tensor) -> Recording | None:
        while len(self._recordings) >= self._most:
            self._recordings.pop(next(iter(self._recordings)))
        mine = given.clone(memory_format=torch.preserve_format)
        try:
            for _ in range(_WARM_UPS):
                self._work(mine)
            result, replay = self._record(lambda: self._work(mine))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as err:
            self._works = False
            logger.warning("cannot record a CUDA graph: %s", err)
            return None
        return Recording(mine, result, replay, self._held())


def record_on_gpu(work: Callable[[], Tensor]) -> tuple[Tensor, Replay]:
    """Record with CUDA's own graphs, in a pool of memory of their own."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return result, graph.replay
