"""A new backend is a module and an entry in the list: everything that needs no server then knows it."""

import subprocess
import sys


def test_a_backend_that_follows_the_recipe_is_known_everywhere() -> None:
    done = subprocess.run([sys.executable, "-m", "suites.tests.throwaway"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
