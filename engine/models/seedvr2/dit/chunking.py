"""How many tokens the fast transformer works on at a time: what bounds its memory. No torch."""

from __future__ import annotations

from engine.models.seedvr2.dit.config import DitConfig

GROUP_ROWS = 16384  # that attend in one call: enough for a large card, a bound for small ones
_CHUNK_BYTES = {
    "cpu": 6 * 2**20
}  # of what an MLP makes of a chunk: on a processor they stay cached
_CHUNK_BYTES_ELSEWHERE = 256 * 2**20
_LEAST_ROWS = 1024  # libraries rearrange the weights for each product: fewer rows are slower


def chunk_rows(config: DitConfig, device_type: str, itemsize: int) -> int:
    """Tokens that are projected at a time; whole windows, so one window if that has more.

    Args:
        config: Of the model.
        device_type: Kind of the torch device.
        itemsize: Bytes of a number that it computes in.
    """
    row_bytes = (2 * config.mlp_hidden + 2 * config.dim) * itemsize
    return max(_LEAST_ROWS, _CHUNK_BYTES.get(device_type, _CHUNK_BYTES_ELSEWHERE) // row_bytes)
