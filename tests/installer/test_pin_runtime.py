import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core import paths
from engine.core.serialization import read_toml
from engine.delivery.runtimes import RuntimeStore
from engine.delivery.wheels import needed_bytes
from engine.files.http_client import HttpError
from engine.files.transfer import Listener
from engine.runtimes.catalogue import load
from installer import pin_runtime
from installer.project import PackagingError
from tests.helpers import runtimes
from tests.helpers.servers import Fault, FaultyServer, faulty_server

PINS = ("bytes =", "sha256 =", "place =", "unpacked_bytes =")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        yield server


@pytest.fixture
def catalogue(server: FaultyServer, tmp_path: Path) -> Path:
    """A copy of the catalogue in the sources without pins, whose index is the server."""
    text = paths.resource("runtime.toml").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(PINS)]
    copy = tmp_path / "runtime.toml"
    index = load(paths.resource("runtime.toml")).index
    copy.write_text("\n".join(lines).replace(index, f"{server.url}/whl") + "\n", "utf-8")
    return copy


def publish(server: FaultyServer, folder: Path, catalogue: Path, fragment: str = "") -> None:
    """Publish an index with every wheel of the catalogue, in the layout of the official one."""
    for runtime in read_toml(catalogue)["runtimes"]:
        links, page = [], f"/whl/{runtime['id']}"
        for wheel in runtime["wheels"]:
            content = runtimes.wheel(folder, name=wheel["filename"]).read_bytes()
            name = wheel["filename"].replace("+", "%2B")
            digest = hashlib.sha256(content).hexdigest()
            server.files[f"{page}/{name}"] = content
            links.append(f'<a href="{page}/{name}#{fragment or f"sha256={digest}"}">')
        server.files[f"{page}/torch/"] = "\n".join(links).encode()


def run(catalogue: Path, *arguments: str) -> int:
    return pin_runtime.main([*arguments, "--catalogue", str(catalogue)])


def test_the_sources_pin_every_wheel_where_the_index_has_it():
    for runtime in load(paths.resource("runtime.toml")):
        for wheel in runtime.wheels:
            assert wheel.place == f"{runtime.id}/{wheel.filename}".replace("+", "%2B")


def test_pins_are_filled_in_from_the_index(server, tmp_path, catalogue, capsys):
    before = catalogue.read_text("utf-8")
    publish(server, tmp_path / "wheels", catalogue)
    assert run(catalogue, "--check") == 1
    assert "not pinned: cu130, cu126 in runtime.toml" in capsys.readouterr().err
    assert run(catalogue) == 0
    assert run(catalogue, "--check") == 0
    known = load(catalogue)
    first = known.runtimes[0]
    path = tmp_path / "wheels" / first.wheels[0].filename
    assert first.wheels[0].place == f"cu130/{path.name}".replace("+", "%2B")
    assert first.bytes == path.stat().st_size
    with path.open("rb") as file:
        assert first.unpacked_bytes == needed_bytes([file])
    text = catalogue.read_text("utf-8")
    assert [line for line in text.splitlines() if not line.startswith(PINS)] == before.splitlines()
    store = RuntimeStore(known)
    assert store.state("cu130").bytes == first.bytes
    assert run(catalogue) == 0
    assert catalogue.read_text("utf-8") == text, "a second time changes nothing"


@pytest.mark.parametrize("line", ["bytes", "sha256"])
def test_a_pin_is_never_replaced(server, tmp_path, catalogue, line, capsys):
    publish(server, tmp_path / "wheels", catalogue)
    run(catalogue)
    value = {"bytes": "bytes = 7", "sha256": f'sha256 = "{"0" * 64}"'}[line]
    changed = re.sub(rf"^{line} = .*$", value, catalogue.read_text("utf-8"), count=1, flags=re.M)
    catalogue.write_text(changed, "utf-8")
    for arguments in ((), ("--check",)):
        assert run(catalogue, *arguments) == 1
        output = capsys.readouterr().err
        assert "the index has torch-2.13.0+cu130-cp312-cp312-win_amd64.whl with" in output
        assert catalogue.read_text("utf-8") == changed


def test_a_pinned_runtime_downloads(server, tmp_path, catalogue):
    text = catalogue.read_text("utf-8").replace("cp312-cp312-win_amd64", "py3-none-any")
    catalogue.write_text(text, "utf-8")
    publish(server, tmp_path / "wheels", catalogue)
    assert run(catalogue) == 0
    store = RuntimeStore(load(catalogue))
    (path,) = store.download("cu126", Listener())
    assert path.name == "torch-2.13.0+cu126-py3-none-any.whl"


def test_nothing_is_written_unless_every_wheel_is_in_the_index(server, tmp_path, catalogue, capsys):
    before = catalogue.read_text("utf-8")
    for fragment, page in (("x", None), ("sha256=abc", None), ("", b"<html></html>"), ("", b"")):
        publish(server, tmp_path / "wheels", catalogue, fragment)
        if page is not None:
            server.files["/whl/cu126/torch/"] = page
        if page == b"":
            del server.files["/whl/cu126/torch/"]
        assert run(catalogue) == 1
        assert catalogue.read_text("utf-8") == before
        assert "not pinned: " in capsys.readouterr().err


def test_of_a_large_file_only_the_end_is_read(monkeypatch, server, tmp_path):
    path = runtimes.wheel(tmp_path, {"torch/a.bin": "x" * 9, "torch/b.lib": "y"})
    server.files["/w.whl"] = path.read_bytes()
    monkeypatch.setattr(pin_runtime, "_TAIL_BYTES", path.stat().st_size - 40)
    members = pin_runtime._members(f"{server.url}/w.whl", path.stat().st_size)
    assert {"torch/a.bin", "torch/b.lib"} < set(members)


def link(server: FaultyServer, place: str) -> None:
    server.files["/whl/cu999/torch/"] = f'<a href="{place}">wheel</a>'.encode()


def test_an_index_has_address_size_and_sum(server, tmp_path):
    wheel = runtimes.wheel(tmp_path)
    (wanted,) = runtimes.runtime(wheel).wheels
    server.files[f"/whl/{runtimes.PLACE}"] = wheel.read_bytes()
    for place in (f"../{runtimes.PLACE.split('/')[1]}", f"{server.url}/whl/{runtimes.PLACE}"):
        link(server, f"{place}#sha256={wanted.sha256}")
        assert pin_runtime.on_index(wheel.name, "cu999", f"{server.url}/whl/") == wanted
    server.faults = [Fault(), Fault(status=503)]  # the page, then the wheel
    with pytest.raises(HttpError, match="503"):
        pin_runtime.on_index(wheel.name, "cu999", f"{server.url}/whl")
    server.faults = [Fault(), Fault(no_length=True)]
    with pytest.raises(PackagingError, match="the size of"):
        pin_runtime.on_index(wheel.name, "cu999", f"{server.url}/whl")


def test_an_index_that_cannot_be_trusted_is_refused(server):
    digest = f"sha256={'0' * 64}"
    for words, place in (
        ("no SHA-256 of", f"../{runtimes.NAME}#md5=0"),
        ("no SHA-256 of", f"../{runtimes.NAME}#sha256=abc"),
        ("no link to torch-9.9.9", f"../torch-9.9.9-py3-none-any.whl#{digest}"),
        ("not an https:// address", f"http://files.example.org/{runtimes.PLACE}#{digest}"),
        ("not an https:// address", f"ftp://127.0.0.1/{runtimes.PLACE}#{digest}"),
    ):
        link(server, place)
        with pytest.raises(PackagingError, match=words):
            pin_runtime.on_index(runtimes.NAME, "cu999", f"{server.url}/whl")
    asked = len(server.asked)
    for address in ("http://index.example.org/whl", "ftp://127.0.0.1/whl", "file:///whl", ""):
        with pytest.raises(PackagingError, match="not an https:// address"):
            pin_runtime.on_index(runtimes.NAME, "cu999", address)
    assert len(server.asked) == asked


def test_links_are_addresses_of_any_server():
    name = "torch-1-py3-none-any.whl"
    page = f'<a href="https://mirror.example.org/a/{name}">'
    found = pin_runtime.links_in(page, "https://index.example.org/x/")
    assert found == {name: (f"https://mirror.example.org/a/{name}", "")}
    page = '<a href="http://[::1"><a href="http://[]/a.whl"><A HREF = \'a-1.whl?a&amp;b\'>'
    page += '<a href="b-1.whl#sha256=x">' + '<a href="' * 10_000
    found = pin_runtime.links_in(page, "https://index.example.org/x/")
    assert found == {"b-1.whl": ("https://index.example.org/x/b-1.whl", "")}
