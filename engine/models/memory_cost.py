"""Bytes a piece of work needs: parts that add up and peaks that do not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Memory of one piece of work, in bytes.

    Attributes:
        weights: Of the model.
        activations: Frames in computation, the result included.
        workspace: Buffers, and what operators take for as long as they run.
        carry: What a slice keeps for the next one.
    """

    weights: int = 0
    activations: int = 0
    workspace: int = 0
    carry: int = 0

    @property
    def peak_bytes(self) -> int:
        """Most bytes needed at once."""
        return self.weights + self.activations + self.workspace + self.carry

    def __add__(self, other: Cost) -> Cost:
        """Both at the same time."""
        return Cost(
            weights=self.weights + other.weights,
            activations=self.activations + other.activations,
            workspace=self.workspace + other.workspace,
            carry=self.carry + other.carry,
        )

    def then(self, other: Cost) -> Cost:
        """One after the other: the larger of each part."""
        return Cost(
            weights=max(self.weights, other.weights),
            activations=max(self.activations, other.activations),
            workspace=max(self.workspace, other.workspace),
            carry=max(self.carry, other.carry),
        )

    def scaled(self, factor: float) -> Cost:
        """Everything but the weights times `factor`."""
        return Cost(
            weights=self.weights,
            activations=round(self.activations * factor),
            workspace=round(self.workspace * factor),
            carry=round(self.carry * factor),
        )
