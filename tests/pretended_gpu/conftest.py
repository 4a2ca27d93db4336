import pytest

from tests.pretended_gpu.guard import HAS_COMPILER


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if not HAS_COMPILER:
        pytest.skip("no g++ to compile the device guard with")
