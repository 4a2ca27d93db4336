"""What every block of a VAE gave while it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn

from engine.models.seedvr2.load_vae import Vae

Keep = Callable[[str, Tensor], None]


@contextmanager
def traced_blocks(vae: Vae, found: dict[str, Tensor]) -> Iterator[None]:
    """Put the output of each block into `found` under its module path, copied."""

    def keep(name: str, output: Tensor) -> None:
        found[name] = output.clone()  # forms work in place

    if not isinstance(vae, nn.Module):
        vae.trace = keep
        try:
            yield
        finally:
            vae.trace = None
        return
    hooks = [
        module.register_forward_hook(partial(_hooked, name, keep))
        for name, module in vae.named_modules()
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
