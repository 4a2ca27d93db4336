from __future__ import annotations

import pytest

from engine.model_files.keymap import KeyMap


def test_the_first_rule_that_fits_is_applied_once() -> None:
    rules = KeyMap(((r"^model\.", ""), (r"^to_", "attn."), ("b", "c")))
    assert rules.ours("model.to_b") == "to_b"
    assert rules.ours("to_b") == "attn.b"
    assert rules.ours("bb") == "cb"
    assert rules.ours("z") == "z"


def test_two_names_that_become_one_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"model\.a and a both become a|a and model\.a both"):
        KeyMap(((r"^model\.", ""),)).published(["model.a", "a"])


def test_ignored_names_are_left_out_and_rules_may_follow_rules() -> None:
    keys = KeyMap(((r"^model\.", ""),), ignored=(r"^freqs$",))
    assert keys.published(["model.freqs", "a.freqs"]) == {"a.freqs": "a.freqs"}
    leaves = KeyMap(((r"\.norm$", ".0"),))
    keys = KeyMap(((r"^down\.", "a."), (r"^up\.", "b.")), then=leaves)
    expected = {"a.0": "down.norm", "b.0": "up.norm", "norm": "norm"}
    assert keys.published(["down.norm", "up.norm", "norm"]) == expected
