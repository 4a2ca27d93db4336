"""What the fast variant is asked for, and a book of the bytes that are alive meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from engine.models.video_vae import workload

Kind = Literal["stream", "inner", "phases", "result", "window", "sums", "carry"]

ITEM = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(workload.Work):
    """What is asked of the fast variant, and where.

    Attributes:
        dtype: Name of the dtype.
        device: Kind of torch device.
        form: Of the convolutions, see `engine.ops.conv.temporal_conv`; "auto" is what a
            processor takes, and on GPUs "2d", which takes more.
    """

    dtype: str = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    form: Literal["auto", "2d", "3d"] = "auto"

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return ITEM[self.dtype]

    @property
    def is_half(self) -> bool:
        """Whether values have two bytes."""
        return self.item == 2

    @property
    def is_3d(self) -> bool:
        """Whether a convolution over time is one call."""
        wanted = self.form if self.switches.convolution == "auto" else self.switches.convolution
        return wanted == "3d" or (wanted == "auto" and self.device == "cpu" and self.is_half)

    @property
    def adds_up(self) -> bool:
        """Whether a sum over frames is made of calls that each add to the result."""
        return not self.is_3d and not self.is_half

    @property
    def adds_in_place(self) -> bool:
        """Whether such a call needs no result of its own."""
        return self.device == "cpu" and self.dtype == "float32"


class Ledger:
    """Bytes that are alive, by kind, and those of the moment when they were most.

    Attributes:
        carry: Bytes kept, by convolution.
        peak: By kind, of the highest moment.
        moment: Name of the convolution at that moment.
        planned: Bytes of the planned window.
    """

    def __init__(self) -> None:
        self.carry: dict[str, int] = {}
        self.peak: Counter[Kind] = Counter()
        self.moment = ""
        self.planned = 0
        self._live: Counter[Kind] = Counter()

    @property
    def peak_bytes(self) -> int:
        """Most bytes at once."""
        return self.peak.total()

    def begin_anew(self) -> None:
        """Forget the highest moment so far; what is alive stays."""
        self.peak, self.moment = Counter(self._live), ""

    def take(self, kind: Kind, size: int, name: str = "") -> None:
        """More is alive."""
        self._live[kind] += size
        if self._live.total() > self.peak.total():
            self.peak, self.moment = Counter(self._live), name or self.moment

    def drop(self, kind: Kind, size: int) -> None:
        """Less is alive."""
        self._live[kind] -= size

    @contextmanager
    def held(self, kind: Kind, size: int, name: str = "") -> Iterator[None]:
        """More is alive inside."""
        self.take(kind, size, name)
        yield
        self.drop(kind, size)

    def plan(self, size: int, name: str) -> None:
        """A request for the planned window: it only ever grows, the old one goes first."""
        self.take("window", max(0, size - self.planned), name)
        self.planned = max(self.planned, size)

    def keep(self, name: str, size: int) -> None:
        """A copy for the next slice in the place of the one before, which goes first."""
        self.drop("carry", self.carry.get(name, 0))
        self.take("carry", size, name)
        self.carry[name] = size
