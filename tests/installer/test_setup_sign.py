import struct
from pathlib import Path

import pytest

from installer import sign


def program(file: Path, signature_bytes: int = 0) -> Path:
    """An empty program for Windows, with a signature of that size."""
    header = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x22)
    optional = bytearray(240)
    struct.pack_into("<H", optional, 0, 0x20B)
    struct.pack_into("<I", optional, 32, 0x1000)  # alignment of sections
    struct.pack_into("<I", optional, 36, 0x200)  # and of the file
    struct.pack_into("<II", optional, 56, 0x2000, 0x200)  # sizes of image and headers
    struct.pack_into("<I", optional, 108, 16)  # directories
    struct.pack_into("<II", optional, 112 + 8 * 4, 0x400 if signature_bytes else 0, signature_bytes)
    section = struct.pack("<8sIIIIIIHHI", b".text", 0x200, 0x1000, 0x200, 0x200, 0, 0, 0, 0, 0x20)
    start = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    begin = start + b"PE\0\0" + header + bytes(optional) + section
    file.write_bytes(begin.ljust(0x200, b"\0") + b"\xc3".ljust(0x200, b"\0"))
    return file


def test_a_signature_is_recognised(tmp_path):
    assert not sign.is_signed(program(tmp_path / "a.exe"))
    assert sign.is_signed(program(tmp_path / "b.exe", signature_bytes=1000))
    for content in (b"", b"MZ", b"\0" * 4096):
        (tmp_path / "c.dll").write_bytes(content)
        with pytest.raises(sign.SignError, match="no program for Windows"):
            sign.is_signed(tmp_path / "c.dll")


def test_without_a_certificate_nothing_is_signed(tmp_path, monkeypatch, capsys):
    for name in ("PFX", "PASSWORD", "TIMESTAMP"):
        monkeypatch.delenv(f"UPREEL_SIGN_{name}", raising=False)
    file = program(tmp_path / "a.exe")
    before = file.read_bytes()
    assert sign.main(["sign", str(file)]) == 1
    assert "UPREEL_SIGN_PFX" in capsys.readouterr().err
    monkeypatch.setenv("UPREEL_SIGN_PFX", str(file))
    assert sign.main(["sign", str(file)]) == 1
    assert "UPREEL_SIGN_TIMESTAMP" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.parametrize("tool", ["osslsigncode", "signtool"])
def test_commands_of_both_tools(tmp_path, monkeypatch, tool):
    monkeypatch.setattr(sign.shutil, "which", lambda name: name if name == tool else None)
    file = program(tmp_path / "a.exe")
    stamped = sign.Certificate(tmp_path / "c.pfx", "secret", "http://time.invalid")
    command = sign.signing_command(stamped, file, tmp_path / "copy", tmp_path / "password")
    assert command[:2] == [tool, "sign"]
    assert "http://time.invalid" in command
    assert str(tmp_path / "copy") in command
    assert ("secret" in command) == (tool == "signtool"), "osslsigncode reads it from a file"
    plain = sign.Certificate(tmp_path / "c.pfx", "secret", "")
    command = sign.signing_command(plain, file, tmp_path / "copy", tmp_path / "password")
    assert not {"-ts", "/tr"} & set(command)


@pytest.mark.programs("osslsigncode", "openssl")
def test_a_folder_is_signed_a_changed_byte_detected_and_the_password_kept(tmp_path):
    folder = tmp_path / "payload"
    folder.mkdir()
    unsigned = [program(folder / "a.exe"), program(folder / "b.DLL")]
    theirs = program(folder / "theirs.dll", signature_bytes=1000)
    before = theirs.read_bytes()
    (folder / "text.txt").write_text("no program", encoding="utf-8")
    certificate = sign.make_test_certificate(tmp_path / "a")
    sign.make_test_certificate(tmp_path / "b")
    assert sign.sign_folder(folder, certificate) == unsigned
    assert theirs.read_bytes() == before, "a signed file stays as it is"
    assert sign.sign_folder(folder, certificate) == []
    trusted = tmp_path / "a" / "test.pem"
    sign.verify(unsigned[0], trusted)
    with pytest.raises(sign.SignError):
        sign.verify(unsigned[0], tmp_path / "b" / "test.pem")
    data = bytearray(unsigned[0].read_bytes())
    data[0x200] ^= 1
    unsigned[0].write_bytes(data)
    with pytest.raises(sign.SignError, match="MISMATCH"):
        sign.verify(unsigned[0], trusted)
    before = unsigned[1].read_bytes()
    wrong = sign.Certificate(certificate.pfx, "not the password", "")
    with pytest.raises(sign.SignError) as caught:
        sign.sign_files([unsigned[1]], wrong)
    assert "not the password" not in str(caught.value)
    assert unsigned[1].read_bytes() == before
