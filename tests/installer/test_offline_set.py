"""The offline set, with a fake Inno Setup."""

import os
import sys
from pathlib import Path

import pytest

from installer import offline_set
from tests.helpers import runtimes
from tests.helpers.servers import Fault, FaultyServer, faulty_server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")

COMPILER = """#!/bin/sh
printf '%s\\n' "$@" > "$0.arguments"
for argument; do
  case "$argument" in /O*) echo set > "${argument#/O}/upreel-1.2.3-offline-cu999.exe";; esac
done
"""


@pytest.fixture
def setup(tmp_path: Path) -> Path:
    path = tmp_path / "upreel-1.2.3-setup.exe"
    path.write_bytes(b"setup")
    return path


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "iscc"
    path.parent.mkdir()
    path.write_text(COMPILER, encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


def run(tmp_path: Path, setup: Path, server: FaultyServer) -> int:
    wheel = runtimes.wheel(tmp_path / "published")
    server.files[f"/{runtimes.PLACE}"] = wheel.read_bytes()
    known = runtimes.catalogue(runtimes.runtime(wheel), index=server.url)
    catalogue = tmp_path / "runtime.toml"
    catalogue.write_text(runtimes.as_toml(known), encoding="utf-8")
    arguments = ["--setup", str(setup), "--runtime", "cu999", "--out", str(tmp_path / "out")]
    return offline_set.main([*arguments, "--catalogue", str(catalogue)])


def test_the_wheel_is_verified_and_packed_into_the_set(tmp_path, setup, compiler, capsys):
    with faulty_server() as server:
        assert run(tmp_path, setup, server) == 0
    arguments = compiler.with_name("iscc.arguments").read_text(encoding="utf-8").splitlines()
    given = dict(text[2:].split("=", 1) for text in arguments if text.startswith("/D"))
    assert given["Version"] == "1.2.3"
    assert Path(given["Setup"]).samefile(setup)
    assert given["Runtime"] == "cu999"
    wheel = Path(given["Wheel"])
    assert wheel.name == runtimes.NAME
    assert wheel.read_bytes() == (tmp_path / "published" / runtimes.NAME).read_bytes()
    assert arguments[-1].endswith("offline_set.iss")
    text = offline_set.SCRIPT.read_text(encoding="utf-8")
    assert all(f"{{#{name}" in text for name in given), "the script uses every definition"
    assert "upreel-1.2.3-offline-cu999.exe" in capsys.readouterr().out


def test_what_is_missing_makes_no_set(tmp_path, setup, compiler, monkeypatch, capsys):
    known = runtimes.runtime(runtimes.wheel(tmp_path / "published"))
    catalogue, text = tmp_path / "unpinned.toml", runtimes.as_toml(runtimes.catalogue(known))
    catalogue.write_text(text.replace("sha256 =", "# sha256 ="), "utf-8")
    arguments = ["--runtime", "cu999", "--out", str(tmp_path / "out"), "--setup"]
    for name, message in (("a.exe", "is no setup of Upreel"), (setup.name, "cannot be read")):
        given = [*arguments, str(tmp_path / name), "--catalogue", str(catalogue)]
        assert offline_set.main(given) == 1
        assert message in capsys.readouterr().err
    with faulty_server() as server:
        server.always = Fault(status=404)
        assert run(tmp_path, setup, server) == 1
        assert capsys.readouterr().err.startswith("no offline set: ")
        server.always = Fault()
        monkeypatch.setenv("PATH", str(tmp_path))
        assert run(tmp_path, setup, server) == 1
        assert "iscc is not installed" in capsys.readouterr().err
    assert not compiler.with_name("iscc.arguments").exists()
