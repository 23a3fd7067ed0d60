import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)  # on a busy machine the time of an example says nothing
settings.load_profile("shared-machine")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()
