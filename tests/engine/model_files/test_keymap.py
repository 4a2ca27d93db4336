from __future__ import annotations

import pytest

from engine.model_files.keymap import KeyMap


def test_without_rules_names_stay() -> None:
    assert KeyMap().published(["a.b", "c"]) == {"a.b": "a.b", "c": "c"}


def test_the_first_rule_that_fits_is_applied_once() -> None:
    rules = KeyMap(((r"^model\.", ""), (r"^to_", "attn."), ("b", "c")))
    assert rules.ours("model.to_b") == "to_b"
    assert rules.ours("to_b") == "attn.b"
    assert rules.ours("bb") == "cb"
    assert rules.ours("z") == "z"


def test_two_names_that_become_one_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"model\.a and a both become a|a and model\.a both"):
        KeyMap(((r"^model\.", ""),)).published(["model.a", "a"])


def test_what_is_ignored_is_left_out_by_our_name() -> None:
    keys = KeyMap(((r"^model\.", ""),), ignored=(r"^freqs$",))
    assert keys.published(["model.freqs", "a.freqs"]) == {"a.freqs": "a.freqs"}


def test_rules_may_follow_rules() -> None:
    leaves = KeyMap(((r"\.norm$", ".0"),))
    keys = KeyMap(((r"^down\.", "a."), (r"^up\.", "b.")), then=leaves)
    assert keys.published(["down.norm", "up.norm", "norm"]) == {
        "a.0": "down.norm", "b.0": "up.norm", "norm": "norm"
    }  # fmt: skip
