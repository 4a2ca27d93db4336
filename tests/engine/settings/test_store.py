import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import SettingsError
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


def test_settings_of_the_machine_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    assert store.load_engine_settings() == EngineSettings(), "without a file the defaults hold"
    settings = EngineSettings(threads=3, memory_share=0.25, tile_previews=False)
    table = dataclasses.asdict(settings) | {"warp": "9"}  # of a later version
    document = store.to_toml({"later": 1, "engine": table})
    (tmp_path / "settings.toml").write_text(document, "utf-8")
    assert store.load_engine_settings() == settings


def test_bad_files_are_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    engine = "[engine]\nthreads = "
    share = "[engine]\nmemory_share = "
    for text in (
        *("engine = 3", "engine = []", "[[engine]]", "[engine", "\xff", "a = " + "[" * 9999),
        *(f"{engine}'x'", f"{engine}-1", f"{engine}1{'0' * 400}", f"{share}nan", f"{share}1e400"),
    ):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(SettingsError) as caught:
            store.load_engine_settings(path)
        assert str(path) in caught.value.hint
