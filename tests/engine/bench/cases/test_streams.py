"""Whole jobs of SeedVR2 in tiles next to whole frames."""

from dataclasses import replace

import pytest

from engine.bench.cases import streams
from engine.bench.options import BenchOptions
from engine.core.geometry import Size
from engine.models.seedvr2.dit.random_dit import MIDDLE


@pytest.mark.extended
def test_each_stream_has_a_row_next_to_whole_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = Size(176, 80)
    tiles = {"encode_tile": tile, "decode_tile": tile, "encode_span": 2, "decode_span": 2}
    monkeypatch.setitem(MIDDLE, "3b", replace(MIDDLE["3b"], layers=2, separate_layers=1))
    monkeypatch.setattr(streams, "_SOURCE", Size(128, 32))
    monkeypatch.setattr(streams, "_QUICK_FRAMES", 9)
    streams_of_test = {"whole frames": streams._STREAMS["whole frames"], "tiles": tiles}
    monkeypatch.setattr(streams, "_STREAMS", streams_of_test)
    whole, in_tiles = streams.stream_rows(BenchOptions(quick=True, device="cpu", threads=1))
    assert (whole["time"], whole["operations"]) == (1, 1)
    assert in_tiles["operations"] > 1.05
    assert in_tiles["time_of_operations"] == in_tiles["time"] / in_tiles["operations"]
