"""An upgrade to a server with a planted bug: the certificate says which promise the bug breaks."""

import json
import subprocess
import sys
from pathlib import Path

from infra.docker.servers_with_bugs import PLANTS
from suites.tests.bench import ENDS
from suites.worker.pool import ROOT


def test_the_certificate_names_the_promise_that_a_lost_token_breaks(tmp_path: Path) -> None:
    (plant,) = (plant for plant in PLANTS if str(plant) == "redis:lost-token")
    command = [sys.executable, "-m", "pytest", "suites/", "-q", "-p", "no:cacheprovider", "--results", str(tmp_path)]
    command += ["--lock", "redis", "--workload", "register", "--faults", "none"]
    command += ["--from", "redis=8.0", "--to", plant.spelling]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=ENDS)
    assert (done.returncode, "FAILED: " in done.stdout) == (1, False), done.stdout + done.stderr
    (told,) = tmp_path.glob("*/certificate.json")
    assert "redis lost token-order under none" in json.loads(told.read_text())["sentence"]
