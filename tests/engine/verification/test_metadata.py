"""Entries of metadata: kept from container to container, and missed where one is lost."""

from itertools import product
from pathlib import Path

import av
import pytest
from av.stream import Disposition

from engine.verification.verify import verify
from engine.video.read.probe import probe
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import make_clip
from tests.helpers.results import make_identity

ENTRIES = {
    **{"title": "T", "date": "2020-01-02", "custom key": "x", "COMMENT": "up", "track": "3/4"},
    **{"location": "+48.1+011.5/", "creation_time": "2020-05-06T07:08:09.5Z", "rating": "5"},
}
CONTAINERS = ("mkv", "mp4", "mov")


@pytest.mark.parametrize(("old", "new"), list(product(CONTAINERS, CONTAINERS)))
def test_all_entries_are_kept(old: str, new: str, tmp_path: Path) -> None:
    source = make_clip(tmp_path / f"source.{old}", frames=3, metadata=ENTRIES)
    result = tmp_path / f"result.{new}"
    make_identity(source, result)
    report = verify(source, result)
    assert report.passed, report.problems


@pytest.mark.parametrize("key", ["creation_time", "location", "custom key"])
def test_an_entry_that_is_lost_is_missed(key: str, tmp_path: Path) -> None:
    source = make_clip(tmp_path / "source.mkv", frames=3, metadata=ENTRIES)
    without = {name: value for name, value in ENTRIES.items() if name != key}
    for suffix in ("mkv", "mp4"):
        result = make_clip(tmp_path / f"result.{suffix}", frames=3, metadata=without)
        (check,) = (one for one in verify(source, result).checks if one.code == "metadata")
        is_optional = suffix == "mp4" and key == "custom key"
        assert check.passed == is_optional
        assert key.replace(" ", "_") in str(check.message)


MARKS = ("default", "forced", "hearing_impaired", "original", "comment")


def marked(path: Path, container: str, marks: tuple[str, ...] = MARKS) -> Path:
    """A clip whose sound has marks."""
    source = make_clip(path.with_name("plain.mkv"), frames=3, audio_tracks=1, b_frames=0)
    with av.open(str(source)) as old, av.open(str(path), "w", format=container) as new:
        streams = {s.index: new.add_stream_from_template(s, opaque=True) for s in old.streams}
        streams[1].disposition = sum(Disposition[mark] for mark in marks)
        for packet in old.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                new.mux(packet)
    return path


@pytest.mark.parametrize(
    ("suffix", "kept", "better"),
    [
        ("mkv", set(MARKS), None),
        ("mp4", set(MARKS) - {"original"}, "MKV"),
        ("mov", {"default"}, "MKV"),
    ],
)
def test_marks_of_tracks_are_kept_or_named(
    suffix: str, kept: set[str], better: str | None, tmp_path: Path
) -> None:
    source = marked(tmp_path / "source.mkv", "matroska")
    result = tmp_path / f"result.{suffix}"
    make_identity(source, result)
    (sound,) = probe(result).audio_streams
    assert set(sound.marks) & set(MARKS) == kept
    named = [one for one in stream_notices(probe(source), suffix) if one.code == "marks-left-out"]
    assert [one.params["better"] for one in named] == [better] * (kept != set(MARKS))
    assert verify(source, result).passed
    if suffix != "mov":
        lost = marked(tmp_path / f"lost.{suffix}", "matroska" if suffix == "mkv" else suffix, ())
        (problem,) = verify(source, lost).problems
        assert "not marked as forced" in str(problem.message)
        has_default = suffix == "mp4"  # FFmpeg gives it to the first track there
        assert ("not marked as default" in str(problem.message)) != has_default


LANGUAGES = (
    "deu",
    "ger",
    "swe",
    "zho",
    "fra",
    "dut",
    "nob",
    "cmn",
    "mul",
    "und",
    "",
    "de",
    "pt-BR",
)


def spoken(path: Path, languages: tuple[str, ...] = LANGUAGES) -> Path:
    """A clip with a sound of each language; the video has the first one."""
    source = make_clip(path.with_name("plain.mkv"), frames=3, audio_tracks=1, b_frames=0)
    with av.open(str(source)) as old, av.open(str(path), "w") as new:
        film, sound = old.streams
        added = [new.add_stream_from_template(film, opaque=True)]
        added += [new.add_stream_from_template(sound, opaque=True) for _ in languages]
        for stream, language in zip(added, (languages[0], *languages), strict=True):
            stream.metadata["language"] = language
        packets = [packet for packet in old.demux() if packet.dts is not None]
        for packet in packets:
            for stream in added[1:] if packet.stream is sound else added[:1]:
                packet.stream = stream
                new.mux(packet)
    return path


@pytest.fixture(scope="module", params=["mkv", "mp4"])
def speaking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spoken(tmp_path_factory.mktemp("spoken") / f"source.{request.param}")


@pytest.mark.parametrize("new", CONTAINERS)
def test_languages_of_tracks_are_kept_or_named(new: str, speaking: Path, tmp_path: Path) -> None:
    source, old = speaking, speaking.suffix[1:]
    result = tmp_path / f"result.{new}"
    make_identity(source, result)
    was, now = probe(source), probe(result)
    named = {
        one.params["index"]: one.params["language"]
        for one in stream_notices(was, new)
        if one.code == "language-left-out"
    }
    assert set(named.values()) == ({"de", "pt-BR"} if old == "mkv" != new else set())
    assert now.video.language == was.video.language == "deu"
    for before, after in zip(was.audio_streams, now.audio_streams, strict=True):
        usual = ("", "und")
        assert after.language == before.language or (
            before.language in (*usual, *named.values()) and after.language in usual
        )
    assert verify(was, result).passed


def test_a_language_that_is_lost_is_missed(speaking: Path, tmp_path: Path) -> None:
    without = spoken(tmp_path / "without.mkv", ("und", *LANGUAGES[1:]))
    (problem,) = verify(speaking, without).problems
    assert "deu" in str(problem.message)
