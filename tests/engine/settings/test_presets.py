import os
from pathlib import Path

import pytest

from engine.core.errors import EngineError, SettingsError
from engine.settings import presets
from engine.settings.presets import applied, matching
from engine.settings.schema import JobSettings

CHOSEN = JobSettings(model="seedvr2-3b", height=2160, crf=20, segment_seconds=2.5, shots="off")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "presets"


def test_a_saved_preset_comes_back() -> None:
    made = presets.save("  Anime, 4K ", CHOSEN)
    assert (made.name, made.title, made.is_own) == ("anime-4k", "Anime, 4K", True)
    found, failures = presets.load_all()
    assert (found, failures) == ((made,), ())
    assert applied(made, JobSettings(crf=1)) == CHOSEN
    assert matching(found, CHOSEN) == made


def test_settings_of_one_film_and_paths_are_left_out(own_folder: Path) -> None:
    settings = JobSettings(
        start="1:00", stop="2:00", overwrite=True, accept_damaged=True, dit="/home/me/x.gguf"
    )
    made = presets.save("Mine", settings)
    assert not {"start", "stop", "overwrite", "accept_damaged", "dit"} & set(made.changes)
    assert "home" not in (own_folder / "mine.toml").read_text(encoding="utf-8")


def test_nothing_is_replaced_silently_and_a_title_has_letters() -> None:
    presets.save("Mine", CHOSEN)
    for title in ("Mine", "mine", " MINE!", "Best", "fast", "Balanced."):
        with pytest.raises(SettingsError, match="already"):
            presets.save(title, JobSettings())
    for title in ("", "   ", "!?"):
        with pytest.raises(SettingsError):
            presets.save(title, CHOSEN)
    ((kept,), _) = presets.load_all()
    assert kept.changes["crf"] == 20


def test_names_are_names_of_files_everywhere(own_folder: Path) -> None:
    names = {
        "Alte Filme (VHS)": "alte-filme-vhs",
        "老电影": "老电影",
        "../../etc/passwd": "etc-passwd",
        "CON": "preset-con",
        "com1": "preset-com1",
        "a" * 200: "a" * 60,
        "two\nlines\u00a0\udcff": "two-lines",
    }
    for title, name in names.items():
        assert presets.save(title, CHOSEN).name == name
    assert "two lines" in {preset.title for preset in presets.load_all()[0]}
    assert {path.stem for path in own_folder.glob("*.toml")} == {*names.values()}


def test_a_preset_is_exported_and_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = presets.save("Mine", CHOSEN)
    presets.export(made, tmp_path / "given.toml")
    with pytest.raises(SettingsError, match="already"):
        presets.take(tmp_path / "given.toml")
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "other"))
    assert presets.take(tmp_path / "given.toml") == made
    with pytest.raises(SettingsError, match=r"gone\.toml"):
        presets.take(tmp_path / "gone.toml")


BAD = {
    "no toml": "title = ",
    "empty": "",
    "no text": "\xff\xfe\x00",
    "a list": "title = 'x'\nsettings = [1]",
    "no settings": "title = 'x'",
    "no title": "[settings]\ncrf = 1",
    "an odd title": "title = 5\n[settings]\ncrf = 1",
    "a title that moves the cursor": 'title = "a\\u001b[2J"\n[settings]\ncrf = 1',
    "an unknown setting": "title = 'x'\n[settings]\nbeauty = 1",
    "an impossible value": "title = 'x'\n[settings]\ncrf = 99",
    "a wrong type": "title = 'x'\n[settings]\ncrf = 'much'",
    "a list for a value": "title = 'x'\n[settings]\ncodec = ['h264']",
    "a number that is none": "title = 'x'\n[settings]\nlatent_rate = nan",
    "far too many digits": f"title = 'x'\n[settings]\ncrf = 0x{'f' * 5000}",
    "far too deep": "title = 'x'\n[settings]\ncrf = " + "[" * 5000,
    "far too deep a name": "title = 'x'\n[settings]\n" + "a." * 5000 + "a = 1",
    "far too long": "title = 'x'\n[settings]\ncrf = 1\n" + "#" * 200_000,
}


def test_a_bad_file_is_left_out_and_reported(own_folder: Path) -> None:
    good = presets.save("Good", CHOSEN)
    for what, text in BAD.items():
        (own_folder / "bad.toml").write_bytes(text.encode("latin-1"))
        found, failures = presets.load_all()
        assert found == (good,), what
        assert len(failures) == 1, what
        with pytest.raises(SettingsError):
            presets.take(own_folder / "bad.toml")


def test_removing_is_for_ones_own() -> None:
    presets.save("Mine", CHOSEN)
    presets.remove("mine")
    assert presets.load_all() == ((), ())
    for name in ("mine", "best", "../settings", ""):
        with pytest.raises(SettingsError):
            presets.remove(name)


def test_a_failed_write_leaves_nothing(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    own_folder.mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match=r"disk became full while writing mine\.toml"):
        presets.save("Mine", CHOSEN)
    assert list(own_folder.iterdir()) == []
