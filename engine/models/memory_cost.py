"""Bytes a piece of work needs: parts that add up and peaks that do not."""

from __future__ import annotations

from dataclasses import dataclass

COMPILER_BYTES = 72 * 2**20
"""Bytes of torch's compiler, which torch loads to run on tensors without values, and keeps."""
DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}  # of one value


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Memory of one piece of work, in bytes.

    Attributes:
        weights: Bytes of the model's weights.
        activations: Frames in computation, the result included.
        workspace: Buffers, and what operators take for as long as they run.
        carry: Bytes that a slice keeps for the next one.
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
