"""A faulty web server on loopback, and what it serves: a model file, a newer version."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.files.catalogue import ModelCatalogue, PublishedFile
from engine.files.model_files import Store

if TYPE_CHECKING:
    from nacl.signing import SigningKey


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with one answer; without any field it is a good one.

    `after` counts bytes of this answer's content.
    """

    cut_after: int | None = None  # then the connection is closed
    stall_after: int | None = None  # then nothing comes any more
    status: int = 0  # and no file
    headers: dict[str, str] = field(default_factory=dict)
    redirect: str = ""
    length: int | None = None  # announced instead of the true one
    content: bytes | None = None  # sent instead of the true one
    ignore_range: bool = False
    shift_range: int = 0  # what is sent begins so many bytes off
    chunked: bool = False
    no_length: bool = False
    drip: int = 0  # bytes at once, ten times a second


GOOD = Fault()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients that do not trust the certificate hang up: not worth a line."""


class FaultyServer:
    """`files` by path, `faults` for the next requests in their order, `asked` what was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.always: Fault = GOOD
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.is_over = threading.Event()
        self.hurry = threading.Event()  # what drips comes at once from now on
        self._http = _Quiet(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def ranges(self) -> list[str]:
        """The Range header of every request, "" without one."""
        return [headers.get("Range", "") for _, headers in self.asked]

    def secure(self, certificate: Path, key: Path) -> None:
        """Talk TLS from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        wrapped = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self._http.socket = wrapped
        self.url = self.url.replace("http://", "https://")

    def next_fault(self) -> Fault:
        return self.faults.pop(0) if self.faults else self.always

    def close(self) -> None:
        self.is_over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@contextlib.contextmanager
def faulty_server() -> Iterator[FaultyServer]:
    server = FaultyServer()
    try:
        yield server
    finally:
        server.close()


def _handler(server: FaultyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            server.asked.append((self.path, dict(self.headers)))
            self.close_connection = True
            with contextlib.suppress(ConnectionError):
                self._answer(server.next_fault())

        def _answer(self, fault: Fault) -> None:
            whole = server.files.get(self.path)
            if fault.redirect:
                self._head(302, {"Location": fault.redirect, "Content-Length": "0"} | fault.headers)
            elif fault.status:
                self._head(fault.status, {"Content-Length": "0"} | fault.headers)
            elif whole is None:
                self._head(404, {"Content-Length": "0"})
            else:
                self._file(whole if fault.content is None else fault.content, fault)

        def _file(self, whole: bytes, fault: Fault) -> None:
            begin, status, headers = 0, 200, dict(fault.headers)
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if asked and not fault.ignore_range:
                begin, status = int(asked[1]) + fault.shift_range, 206
                if begin >= len(whole):
                    headers |= {"Content-Range": f"bytes */{len(whole)}", "Content-Length": "0"}
                    self._head(416, headers)
                    return
                headers["Content-Range"] = f"bytes {begin}-{len(whole) - 1}/{len(whole)}"
            content = whole[begin:]
            if fault.chunked:
                headers["Transfer-Encoding"] = "chunked"
            elif not fault.no_length:
                announced = len(content) if fault.length is None else fault.length
                headers["Content-Length"] = str(announced)
            self._head(status, headers)
            self._send(content, fault)

        def _send(self, content: bytes, fault: Fault) -> None:
            end = min(
                len(content) if stop is None else stop
                for stop in (fault.cut_after, fault.stall_after)
            )
            step = fault.drip or 65536
            for at in range(0, end, step):
                piece = content[at : min(at + step, end)]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if fault.chunked else piece)
                self.wfile.flush()
                is_slow = fault.drip and not server.hurry.is_set()
                if is_slow and server.is_over.wait(0.1):
                    return
            if fault.stall_after is not None:
                server.is_over.wait(30)
            elif fault.chunked and fault.cut_after is None:
                self.wfile.write(b"0\r\n\r\n")

        def _head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()

    return Handler


CONTENT = bytes(range(256)) * 400  # 102,400 bytes
PLACE = "/some/body/main/tiny.safetensors"


def published(content: bytes = CONTENT, **changes: object) -> PublishedFile:
    """A file of a catalogue with one file."""
    values: dict[str, object] = {
        "id": "tiny",
        "title": "Tiny",
        "kind": "dit",
        "models": ("seedvr2-3b",),
        "precision": "fp16",
        "repository": "some/body",
        "filename": "tiny.safetensors",
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "Apache-2.0",
        "host": "loopback",
    }
    return PublishedFile(**(values | changes))


def store_of(folder: Path, server: FaultyServer | None, *files: PublishedFile) -> Store:
    """A store of these files only; each is asked for at `server`."""
    url = server.url if server is not None else "http://127.0.0.1:9"
    hosts = {"loopback": url + "/{repository}/{revision}/{filename}"}
    return Store(folder, files=ModelCatalogue(hosts=hosts, files=files))


NEWER = "99.1.0"
SETUP = bytes(range(256)) * 400  # 102,400 bytes


def _signing_key() -> SigningKey:
    from nacl.signing import SigningKey  # a machine for GPU tests may lack it

    return SigningKey(b"k" * 32)


@dataclass
class Release:
    """What lies on a server, and whose key signed it."""

    server: FaultyServer
    key: SigningKey = field(default_factory=_signing_key)
    setup: bytes = SETUP

    @property
    def public(self) -> str:
        """The key that a program would know."""
        return self.key.verify_key.encode().hex()

    @property
    def address(self) -> str:
        """Of the description."""
        return f"{self.server.url}/upreel/update.json"

    def publish(self, version: str = NEWER, **changes: Any) -> bytes:
        """Put a version on the server; what was signed."""
        name = f"upreel-{version}-setup.exe"
        self.server.files[f"/upreel/{name}"] = self.setup
        return self.publish_text(json.dumps(description(self.setup, version) | changes).encode())

    def publish_text(self, content: bytes, *keys: SigningKey) -> bytes:
        """Put any bytes there, signed by our key or by these."""
        self.server.files["/upreel/update.json"] = content
        self.server.files["/upreel/update.json.sig"] = signed(content, *(keys or [self.key]))
        return content

    def build(self, folder: Path, *keys: str) -> Path:
        """The resources of a build that knows all this."""
        folder.mkdir(parents=True, exist_ok=True)
        known = ", ".join(f'"{key}"' for key in keys or [self.public])
        text = f'address = "{self.address}"\nkeys = [{known}]\n'
        (folder / "update.toml").write_text(text, encoding="utf-8")
        return folder


def description(setup: bytes = SETUP, version: str = NEWER) -> dict[str, Any]:
    """What is signed, as plain data."""
    return {
        "product": "upreel",
        "format": 1,
        "version": version,
        "date": "2026-12-01",
        "counter": int(time.time()),
        "expires": str(datetime.now(UTC).date() + timedelta(days=30)),
        "notes": {"en": "- Faster.", "zh_CN": "- 更快。"},
        "setup": {
            "name": f"upreel-{version}-setup.exe",
            "bytes": len(setup),
            "sha256": hashlib.sha256(setup).hexdigest(),
        },
    }


def signed(content: bytes, *keys: SigningKey) -> bytes:
    """A line for each key."""
    lines = [base64.b64encode(key.sign(content).signature) for key in keys]
    return b"\n".join(lines) + b"\n"
