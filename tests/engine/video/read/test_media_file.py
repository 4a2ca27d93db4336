from pathlib import Path

from engine.video.read.media_file import is_truncated
from tests.helpers.clips import cut_short, make_clip, make_picture


def test_a_missing_end_is_noticed(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.mov", "a.mkv", "a.webm", "a.avi", "a.png", "a.jpg"):
        codec = {"a.webm": "libvpx-vp9", "a.avi": "mpeg4"}.get(name, "libx264")
        if name in ("a.png", "a.jpg"):
            pixel_format = "rgb24" if name == "a.png" else "yuvj420p"
            whole = make_picture(tmp_path / name, pixel_format=pixel_format)
        else:
            whole = make_clip(tmp_path / name, frames=12, codec=codec)
        assert not is_truncated(whole), name
        for share in (0.3, 0.6, 0.95):
            cut = cut_short(whole, tmp_path / f"cut{whole.suffix}", share)
            assert is_truncated(cut), (name, share)


def test_other_files_count_as_whole(tmp_path: Path) -> None:
    assert not is_truncated(make_clip(tmp_path / "a.ts", frames=3))
    assert not is_truncated(tmp_path / "missing")
    for number, content in enumerate((b"", b"x", b"\x1a\x45\xdf\xa3", bytes(100))):
        (tmp_path / f"{number}").write_bytes(content)
        assert not is_truncated(tmp_path / f"{number}")
