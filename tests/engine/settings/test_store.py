import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import OutputUnwritable, SettingsError
from engine.settings import store
from engine.settings.schema import EngineSettings

_SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(blacklist_categories=["Cs"])),
    st.datetimes(),
)
_KEYS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=5)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3)
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_every_document_reads_back_equal(data: dict[str, Any]) -> None:
    assert tomllib.loads(store.to_toml(data)) == data


def test_saved_settings_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "deep"))
    settings = EngineSettings(threads=3, memory_share=0.25, tile_previews=False)
    path = tmp_path / "deep" / "settings.toml"
    assert store.load_engine_settings(path) == EngineSettings(), "without a file the defaults hold"
    store.save_engine_settings(settings)
    assert store.load_engine_settings() == store.load_engine_settings(path) == settings
    assert [p.name for p in path.parent.iterdir()] == ["settings.toml"]


def test_unknown_keys_and_tables_stay(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('later = 1\n[engine]\nwarp = "9"\nthreads = 1\n[window]\nwide = [1, 2]\n')
    store.save_engine_settings(EngineSettings(threads=4), path)
    data = tomllib.loads(path.read_text())
    assert (data["later"], data["window"]) == (1, {"wide": [1, 2]})
    assert (data["engine"]["warp"], data["engine"]["threads"]) == ("9", 4)


def test_bad_files_are_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    engine = "[engine]\nthreads = "
    for text in ("engine = 3", f"{engine}'x'", f"{engine}-1", "[engine", "\xff"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(SettingsError) as caught:
            store.load_engine_settings(path)
        assert str(path) in caught.value.hint


def test_a_damaged_file_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("[engine")
    store.save_engine_settings(EngineSettings(threads=1), path)
    assert store.load_engine_settings(path).threads == 1
    assert (tmp_path / "settings.toml.damaged").read_text() == "[engine"


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.toml"
    store.save_engine_settings(EngineSettings(threads=1), path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputUnwritable, match="settings") as caught:
        store.save_engine_settings(EngineSettings(threads=2), path)
    assert "No space" in caught.value.hint
    assert store.load_engine_settings(path).threads == 1
    assert [p.name for p in tmp_path.iterdir()] == ["settings.toml"]
