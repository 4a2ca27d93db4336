"""What every block of a model gave while it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

Keep = Callable[[str, Tensor], None]

STREAMS = ("vid", "txt")  # blocks of a transformer give both


@contextmanager
def traced_blocks(model: Any, found: dict[str, Tensor]) -> Iterator[None]:
    """Put the output of each block into `found` under its module path, copied.

    A model that does not run its blocks as modules has an attribute `trace` to be told by.
    """

    def keep(name: str, output: Tensor) -> None:
        found[name] = output.clone()  # forms work in place

    if hasattr(model, "trace"):
        model.trace = keep
        try:
            yield
        finally:
            model.trace = None
        return
    hooks = [
        module.register_forward_hook(partial(_hooked, name, keep))
        for name, module in model.named_modules()
        if name
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hooked(name: str, keep: Keep, module: nn.Module, given: object, output: object) -> None:
    if isinstance(output, Tensor):
        keep(name, output)
    elif isinstance(output, tuple) and len(output) == len(STREAMS):
        for stream, value in zip(STREAMS, output, strict=True):
            keep(f"{name}.{stream}", value)
