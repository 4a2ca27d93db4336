"""What the fast transformer makes of the text alone, kept as long as the text stays the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class KeptText:
    """The text's tokens, and what the first layer makes of them before it sees the picture.

    Args:
        kept: False makes them anew each time.

    Memory: a copy of the text and 4 * dim numbers for each of its tokens.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self.forget()

    def forget(self) -> None:
        """The weights have changed."""
        self._text: Tensor | None = None
        self._tokens = self._heads = torch.empty(0)
        self._timestep: float | None = None

    def tokens(self, text: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
        """What `make` gives for this text."""
        if not self._knows(text):
            self.forget()
            self._tokens = make(text)
            self._text = text.clone() if self._kept else None
        return self._tokens

    def heads(self, timestep: float, make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives for the tokens of before and this time step."""
        if not self._kept or timestep != self._timestep:
            self._heads, self._timestep = make(), timestep
        return self._heads

    def _knows(self, text: Tensor) -> bool:
        known = self._text
        if known is None or known.shape != text.shape:
            return False
        same_kind = (known.dtype, known.device) == (text.dtype, text.device)
        return same_kind and torch.equal(known, text)
