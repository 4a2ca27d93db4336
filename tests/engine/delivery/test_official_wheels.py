from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled, DownloadFailed, UnsuitableWheel
from engine.delivery import wheels as official_wheels
from engine.runtimes.catalogue import Runtime, catalogue
from tests.helpers import runtimes
from tests.helpers.servers import Fault, FaultyServer


@pytest.fixture
def unpinned(wheel: Path) -> Runtime:
    return runtimes.unpinned(runtimes.runtime(wheel))


def test_an_index_has_address_size_and_sum(
    server: FaultyServer, unpinned: Runtime, wheel: Path
) -> None:
    for place in ("", f"{server.url}/whl/{runtimes.PLACE}"):
        runtimes.publish(server, wheel, **({"place": place} if place else {}))
        found = official_wheels.from_index(unpinned, f"{server.url}/whl/")
        assert found == runtimes.runtime(wheel)


def test_an_index_that_cannot_be_trusted_is_refused(
    server: FaultyServer, unpinned: Runtime, wheel: Path
) -> None:
    elsewhere = f"http://files.example.org/{runtimes.PLACE}"
    for words, about in (
        ("publishes no SHA-256", {"fragment": "md5=0"}),
        ("publishes no SHA-256", {"fragment": "sha256=abc"}),
        ("torch-9.9.9.* is not available from", {"place": "../torch-9.9.9-py3-none-any.whl"}),
        ("is not an https:// address", {"place": elsewhere}),
        ("is not an https:// address", {"place": "ftp://127.0.0.1/" + runtimes.PLACE}),
    ):
        runtimes.publish(server, wheel, **about)
        with pytest.raises(UnsuitableWheel, match=words):
            official_wheels.from_index(unpinned, f"{server.url}/whl")
    runtimes.publish(server, wheel, "md5=0", elsewhere.replace("http:", "https:"))
    with pytest.raises(UnsuitableWheel) as caught:
        official_wheels.from_index(unpinned, f"{server.url}/whl")
    assert "download https://files.example.org/" in caught.value.hint
    asked = len(server.asked)
    for address in ("http://index.example.org/whl", "ftp://127.0.0.1/whl", "file:///whl", ""):
        with pytest.raises(UnsuitableWheel, match="is not an https:// address"):
            official_wheels.from_index(unpinned, address)
    assert len(server.asked) == asked


def test_an_index_that_does_not_answer_is_a_download_that_failed(
    server: FaultyServer, unpinned: Runtime, wheel: Path
) -> None:
    with pytest.raises(DownloadFailed, match="404"):
        official_wheels.from_index(unpinned, f"{server.url}/whl")
    runtimes.publish(server, wheel)
    server.faults = [Fault(), Fault(status=503)]  # the page, then the wheel
    with pytest.raises(DownloadFailed, match="503"):
        official_wheels.from_index(unpinned, f"{server.url}/whl")
    server.faults = [Fault(), Fault(no_length=True)]
    with pytest.raises(UnsuitableWheel, match="not state the size"):
        official_wheels.from_index(unpinned, f"{server.url}/whl")
    control = Control()
    control.cancel()
    with pytest.raises(Cancelled):
        official_wheels.from_index(unpinned, f"{server.url}/whl", control)


def test_links_to_another_server_are_followed() -> None:
    name = "torch-1-py3-none-any.whl"
    page = f'<a href="https://mirror.example.org/a/{name}">'
    found = official_wheels.links_in(page, "https://index.example.org/x/")
    assert found == {name: (f"https://mirror.example.org/a/{name}", "")}


def test_links_that_are_no_addresses_are_left_out() -> None:
    page = '<a href="http://[::1"><a href="http://[]/a.whl"><A HREF = \'a-1.whl?a&amp;b\'>'
    page += '<a href="b-1.whl#sha256=x">' + '<a href="' * 10_000
    found = official_wheels.links_in(page, "https://index.example.org/x/")
    assert found == {"b-1.whl": ("https://index.example.org/x/b-1.whl", "")}


def test_the_name_of_a_file_says_what_is_wrong_with_it() -> None:
    known = catalogue().runtimes
    for name, words in (
        ("torch.zip", "not have the file name of a wheel"),
        ("torch-2.13.0.whl", "not have the file name of a wheel"),
        ("torchvision-2.13.0+cu130-cp312-cp312-win_amd64.whl", "a wheel of torchvision"),
        ("torch-2.9.1+cu130-cp312-cp312-win_amd64.whl", "contains torch 2.9.1"),
        ("torch-2.13.0+cu128-cp312-cp312-win_amd64.whl", "the build cu128 .* cu130, cu126"),
        ("torch-2.13.0-cp312-cp312-win_amd64.whl", "the build cpu"),
        ("torch-2.13.0+cu130-cp311-cp311-win_amd64.whl", "another Python version or"),
        ("torch-2.13.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl", "or operating system"),
    ):
        with pytest.raises(UnsuitableWheel, match=words):
            official_wheels.check_name(name, known)
    for runtime in known:
        official_wheels.check_name(runtime.wheels[0].filename, known)
