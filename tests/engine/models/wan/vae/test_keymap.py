from __future__ import annotations

import json

import pytest

from engine.models.wan.vae.keymap import wan_keys
from tests.helpers.wan import GOLDEN


def table(model: str) -> dict[str, str]:
    return json.loads((GOLDEN / f"diffusers_keymap_{model}.json").read_text())["table"]


@pytest.mark.parametrize("prefix", ["", "vae.", "model.", "first_stage_model.", "model.vae."])
@pytest.mark.parametrize("model", ["wan21", "wan22"])
def test_every_layout_gives_our_names(model: str, prefix: str) -> None:
    for names in (table(model), {ours: ours for ours in table(model).values()}):
        given = [prefix + name for name in names]
        found = wan_keys(given).published(given)
        assert found == {ours: prefix + theirs for theirs, ours in names.items()}


def test_a_prefix_that_not_all_have_stays() -> None:
    names = ["vae.encoder.conv1.weight", "encoder.conv1.weight"]
    assert wan_keys(names).published(names) == {name: name for name in names}
    assert wan_keys([]).published([]) == {}
