"""Memory that runs out: an error in the place of one allocation of torch, by its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class RunsOut(TorchDispatchMode):
    """Refuses the n-th operator that gives new memory, in the thread that entered it.

    Operators that only look at what is there (views) or write into it are not counted.

    Attributes:
        count: Such operators so far.
        refused: Name of the operator that was refused; "" before that.
        at_refusal: Called then, before the error is raised.
    """

    def __init__(self, at: int = 0, *, again: int = 0) -> None:
        """Refuse number `at`, 0 for none, and with `again` so many right behind it too."""
        super().__init__()
        self._refused_ones = range(at, at + again + 1) if at else range(0)
        self.count = 0
        self.refused = ""
        self.at_refusal: Callable[[], None] = lambda: None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(each.alias_info is None for each in func._schema.returns) and _takes(result):
            self.count += 1
            if self.count in self._refused_ones:
                self.refused = str(func)
                self.at_refusal()
                raise torch.OutOfMemoryError(f"refused: allocation {self.count}, {func}")
        return result


def _takes(result: Any) -> bool:
    """Whether a result has memory: neither a number nor a tensor without any."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return any(isinstance(part, torch.Tensor) and part.device.type != "meta" for part in parts)
