"""The table of memory that ships, against the code of today."""

from __future__ import annotations

import json
from random import Random

import pytest

from engine.core.geometry import Size
from engine.core.paths import resource
from engine.models.video_vae.measured_memory import TABLE
from engine.models.video_vae.measuring import Valueless
from engine.models.video_vae.vae_use import FIGURES, VaeUse
from engine.settings.optimisations import VaeSwitches
from tools.memory_table import VAES, changed, table_text, uses

USES = {name: list(uses(name)) for name in VAES}
SLOW = VaeSwitches().changed("ring_buffers", False)
_PICK = Random(6)
CELLS = [
    pytest.param(
        name,
        use,
        call,
        Size(32 * _PICK.randint(3, 12), 32 * _PICK.randint(3, 12)),
        id=f"{name} {use.name} {call}",
    )
    for name, use, call in (
        ("seedvr2", VaeUse(device="cuda", dtype="float16"), "decode_high"),
        ("seedvr2", VaeUse(device="cuda", dtype="float16", is_image=True), "encode_slice"),
        ("seedvr2", VaeUse(), "decode_low"),
        ("wan21", VaeUse(dtype="bfloat16"), "encode_low"),
        ("wan22", VaeUse(device="cuda", dtype="float16"), "decode_slice"),
        ("wan2x", VaeUse(device="cuda"), "encode_high"),
        ("seedvr2", VaeUse(device="cuda", dtype="float16", switches=SLOW), "decode_slice"),
        ("wan21", VaeUse(switches=VaeSwitches.all_off()), "encode_slice"),
    )
]


@pytest.mark.parametrize(("name", "use", "call", "size"), CELLS)
def test_eight_cells_measured_again_are_what_ships(
    name: str, use: VaeUse, call: str, size: Size
) -> None:
    """On a failure, run `python -m tools.memory_table`: the code has changed."""
    vae, config = VAES[name].vae, VAES[name].config
    more = 1.02 if use == use.usual else 1.08  # others are measured on fewer sides
    planned, operations = (ask(config, call, use, size) for ask in (vae.peak, vae.operations))
    with Valueless(vae, config, use) as measured:
        found = measured.slices(call, size)
    for figure in FIGURES:
        bytes_planned, bytes_found = getattr(planned, figure), found[figure]
        assert bytes_found <= bytes_planned <= more * bytes_found + 2**16, figure
    assert operations.first == pytest.approx(found["first_operations"], rel=0.01)
    assert operations.later == pytest.approx(found["later_operations"], rel=0.01)


def test_all_published_vaes_and_usual_uses_are_in_the_table() -> None:
    text = resource(TABLE).read_text(encoding="utf-8")
    found = json.loads(text)
    assert set(found) == {repr(one.config) for one in VAES.values()}
    for name, one in VAES.items():
        entries = found[repr(one.config)]
        assert list(entries) == [one.name for use in USES[name] for one in (use, *changed(use))]
        for use in USES[name]:
            calls = set(one.vae.pieces(one.config, 4))
            assert set(entries[use.name]["calls"]) == calls
            assert all(set(entries[other.name]["calls"]) <= calls for other in changed(use))
    assert table_text(found) + "\n" == text
