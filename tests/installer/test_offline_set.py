"""The set for machines without a network, with a stand-in for Inno Setup."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from installer import offline_set
from tests.helpers import runtimes
from tests.helpers.faulty_server import Fault, FaultyServer, faulty_server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")

COMPILER = """#!/bin/sh
printf '%s\\n' "$@" > "$0.words"
for word; do
  case "$word" in /O*) echo set > "${word#/O}/upreel-1.2.3-offline-cu999.exe";; esac
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
    words = ["--setup", str(setup), "--runtime", "cu999", "--out", str(tmp_path / "out")]
    return offline_set.main([*words, "--catalogue", str(catalogue)])


def test_the_wheel_comes_by_its_hash_and_goes_into_the_set(
    tmp_path: Path, setup: Path, compiler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with faulty_server() as server:
        assert run(tmp_path, setup, server) == 0
    words = compiler.with_name("iscc.words").read_text(encoding="utf-8").splitlines()
    given = dict(word[2:].split("=", 1) for word in words if word.startswith("/D"))
    assert given["Version"] == "1.2.3"
    assert Path(given["Setup"]).samefile(setup)
    assert given["Runtime"] == "cu999"
    wheel = Path(given["Wheel"])
    assert wheel.name == runtimes.NAME
    assert wheel.read_bytes() == (tmp_path / "published" / runtimes.NAME).read_bytes()
    assert words[-1].endswith("offline_set.iss")
    text = offline_set.SCRIPT.read_text(encoding="utf-8")
    assert all(f"{{#{name}" in text for name in given), "the script reads what it is told"
    assert "upreel-1.2.3-offline-cu999.exe" in capsys.readouterr().out


def test_a_wheel_that_does_not_come_makes_no_set(
    tmp_path: Path, setup: Path, compiler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with faulty_server() as server:
        server.always = Fault(status=404)
        assert run(tmp_path, setup, server) == 1
    assert capsys.readouterr().err.startswith("no offline set: ")
    assert not compiler.with_name("iscc.words").exists()


def test_the_sources_are_not_pinned(
    tmp_path: Path, setup: Path, compiler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--setup", str(setup), "--runtime", "cu130", "--out", str(tmp_path / "out")]
    assert offline_set.main(words) == 1
    assert "not in this build" in capsys.readouterr().err.lower()


def test_no_inno_setup(
    tmp_path: Path,
    setup: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with faulty_server() as server:
        assert run(tmp_path, setup, server) == 1
    assert "ISCC is not there" in capsys.readouterr().err


def test_a_setup_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--setup", str(tmp_path / "a.exe"), "--runtime", "cu130", "--out", str(tmp_path)]
    assert offline_set.main(words) == 1
    assert "is no setup of Upreel" in capsys.readouterr().err
