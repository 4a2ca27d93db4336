import contextlib
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from engine.core.errors import UnsafeArchive
from engine.delivery.wheels import unpack


def archive(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def unpacked(wheel: Path, folder: Path) -> dict[str, int]:
    with wheel.open("rb") as file:
        return unpack(file, folder)


def test_bad_names_refuse_the_whole_archive(tmp_path: Path) -> None:
    for name in (
        "../a.py",
        "torch/../../a.py",
        "/etc/a.py",
        "C:/a.py",
        "C:a.py",
        "\\\\server\\share\\a.py",
        "torch\\..\\a.py",
        "torch/a.py:stream",
        "torch/con.py",
        "torch/NUL",
        "torch/LPT1.txt",
        "torch /a.py",
        "torch./a.py",
        "torch/a.py.",
        "torch/a\x01.py",
        "torch/" + "a" * 250,
        "torch/__INIT__.py",  # on Windows it is the first file again
    ):
        wheel = archive(tmp_path / "w.whl", ("torch/__init__.py", b"1"), (name, b"2"))
        with pytest.raises(UnsafeArchive):
            unpacked(wheel, tmp_path / "out")
        assert not (tmp_path / "out").exists(), "nothing is written before all names were seen"


@pytest.mark.parametrize("other", ["../../up.py", "/up.py", "torch/con", "torch/b/../../../up.py"])
def test_a_file_with_two_names_refuses_the_whole_archive(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_other_names(self: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        for info in self.filelist:
            info.filename = other  # as Python 3.12 does it, and no version may use it
        return self.filelist

    wheel = archive(tmp_path / "w.whl", ("torch/ok.py", b"1"))
    monkeypatch.setattr(zipfile.ZipFile, "infolist", with_other_names)
    with pytest.raises(UnsafeArchive, match=r"names one file both 'torch/ok\.py' and"):
        unpacked(wheel, tmp_path / "a" / "b" / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["w.whl"]


def test_the_field_for_a_second_name_leads_nowhere(tmp_path: Path) -> None:
    name, other = b"torch/ok.py", b"../../up.py"
    field = struct.pack("<BL", 1, zlib.crc32(name)) + other  # the Unicode Path Extra Field
    info = zipfile.ZipInfo(name.decode())
    info.extra = struct.pack("<HH", 0x7075, len(field)) + field
    wheel = archive(tmp_path / "w.whl", (info, b"1"))
    with contextlib.suppress(UnsafeArchive):  # Python 3.11 knows no such field
        assert unpacked(wheel, tmp_path / "a" / "b" / "out") == {"torch/ok.py": 1}
    assert not list(tmp_path.rglob("up.py"))


def test_no_file_takes_the_place_of_another_one_or_of_a_folder(tmp_path: Path) -> None:
    for first, second in (
        ("torch/a.py", "x.data/purelib/torch/a.py"),
        ("torch/a.py", "x.data/platlib/torch/A.py"),
        ("torch/a", "torch/a/b.py"),
        ("torch/A/b.py", "torch/a"),
    ):
        wheel = archive(tmp_path / "w.whl", (first, b"1"), (second, b"2"))
        with pytest.raises(UnsafeArchive, match="twice"):
            unpacked(wheel, tmp_path / "out")


def test_links_and_cut_archives_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("torch/link")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(UnsafeArchive, match="not a regular file"):
        unpacked(archive(tmp_path / "w.whl", (link, b"/etc/passwd")), tmp_path / "out")
    whole = archive(tmp_path / "w.whl", ("torch/a.py", b"1" * 1000)).read_bytes()
    for keep in (0, 30, 100):
        (tmp_path / "w.whl").write_bytes(whole[:keep])
        with pytest.raises(UnsafeArchive):
            unpacked(tmp_path / "w.whl", tmp_path / "out")


def test_a_bomb_is_refused_and_a_member_with_too_small_a_size_does_not_grow(tmp_path: Path) -> None:
    wheel = archive(tmp_path / "w.whl", ("torch/a.bin", bytes(50_000_000)))
    assert wheel.stat().st_size < 100_000
    with pytest.raises(UnsafeArchive, match="far more"):
        unpacked(wheel, tmp_path / "out")
    wheel = archive(tmp_path / "w.whl", ("torch/a.bin", bytes(100_000)))
    lie = wheel.read_bytes().replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    wheel.write_bytes(lie)
    with pytest.raises(UnsafeArchive, match="damaged"):
        unpacked(wheel, tmp_path / "out")
    assert (tmp_path / "out/torch/a.bin").stat().st_size <= 10


def test_packages_of_the_data_folder_come_to_the_others(tmp_path: Path) -> None:
    wheel = archive(
        tmp_path / "w.whl",
        ("torch-1.data/purelib/functorch/__init__.py", b"1"),
        ("torch-1.data/scripts/torchrun", b"2"),
        ("torch-1.data/headers/a.h", b"3"),
    )
    assert unpacked(wheel, tmp_path / "out") == {"functorch/__init__.py": 1}
    assert (tmp_path / "out/functorch/__init__.py").read_bytes() == b"1"
