import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)  # how long an example takes says nothing on a busy one
settings.load_profile("shared-machine")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()
