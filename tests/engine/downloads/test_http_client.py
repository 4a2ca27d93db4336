from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from engine.core.errors import DownloadFailed
from engine.downloads import http_client
from engine.downloads.transfer import Listener, Patience
from engine.model_files.catalogue import Catalogue, PublishedFile
from engine.model_files.download import download
from engine.model_files.store import Store
from tests.helpers.faulty_server import Fault, FaultyServer
from tests.helpers.published import CONTENT, PLACE

HASTY = Listener(patience=Patience(first_tries=1, silence_s=2.0))


def get(tmp_path: Path, file: PublishedFile, url: str) -> bytes:
    hosts = {"loopback": url + "/{repository}/{revision}/{filename}"}
    store = Store(tmp_path / "models", files=Catalogue(hosts=hosts, files=(file,)))
    download(file, store, HASTY)
    return store.ready(file.id).read_bytes()


@pytest.fixture
def certificate(tmp_path: Path, server: FaultyServer) -> Path:
    """The server talks TLS from now on; its certificate, which nobody trusts yet."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, path = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(path)]
    subprocess.run([openssl, *words.split(), *names, *files], check=True, capture_output=True)
    server.secure(path, key)
    return path


def test_an_untrusted_certificate_is_refused(
    tmp_path: Path, file: PublishedFile, server: FaultyServer, certificate: Path
) -> None:
    with pytest.raises(DownloadFailed, match="certificate is not trusted"):
        get(tmp_path, file, server.url)
    assert server.asked == []


def test_a_trusted_server_may_not_lead_to_a_place_without_encryption(
    tmp_path: Path,
    file: PublishedFile,
    server: FaultyServer,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert ssl.get_default_verify_paths().cafile == str(certificate)
    server.faults = [Fault(redirect="http://127.0.0.1:9/x")]
    with pytest.raises(DownloadFailed, match="not encrypted"):
        get(tmp_path, file, server.url)
    server.faults = [Fault(redirect="/elsewhere"), Fault(redirect=PLACE)]
    assert get(tmp_path, file, server.url) == CONTENT


def test_a_proxy_is_asked_where_the_system_names_one(
    tmp_path: Path, file: PublishedFile, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("//", "//me:word@"))
    monkeypatch.delenv("no_proxy", raising=False)
    server.files["http://models.invalid" + PLACE] = CONTENT
    assert get(tmp_path, file, "http://models.invalid") == CONTENT
    ((_, headers),) = server.asked
    assert headers["Proxy-Authorization"] == "Basic bWU6d29yZA=="
    assert headers["Host"] == "models.invalid"
    assert "Authorization" not in headers


def test_what_a_hub_announces_on_the_way_is_kept(file: PublishedFile, server: FaultyServer) -> None:
    announced = {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": "102400"}
    server.faults = [Fault(redirect="/moved"), Fault(redirect=PLACE, headers=announced)]
    with http_client.get(server.url + "/old") as reply:
        assert (reply.announced_sha256, reply.announced_bytes) == (file.sha256, 102400)
    server.faults = [Fault(headers={"X-Linked-Etag": "0" * 40, "X-Linked-Size": "many"})]
    with http_client.get(server.url + PLACE) as reply:
        assert (reply.announced_sha256, reply.announced_bytes) == ("", 0)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("bytes 5-9/10", (5, 10)),
        ("bytes 5-9/*", (5, 0)),
        ("bytes */10", (None, 10)),
        ("", (None, 0)),
        ("bytes five", (None, 0)),
        ("lines 1-2/3", (None, 0)),
    ],
)
def test_content_ranges(server: FaultyServer, said: str, means: tuple[int | None, int]) -> None:
    server.always = Fault(headers={"Content-Range": said})
    with http_client.get(server.url + PLACE) as reply:
        assert reply.content_range == means
        assert reply.content_bytes == len(CONTENT)
