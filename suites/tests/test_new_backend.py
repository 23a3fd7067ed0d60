"""A new backend is a module and an entry in the list: everything that needs no server then knows it."""

import json
import subprocess
import sys

from infra.faults.all_faults import FAULTS


def test_a_backend_that_follows_the_recipe_is_known_everywhere() -> None:
    done = subprocess.run([sys.executable, "-m", "suites.tests.throwaway"], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert answers["members"] == ["words"]
    assert answers["proxies"] == [f"c{group}-words" for group in range(4)]
    assert answers["image"] == "fencepost/words:trixie"
    assert (answers["health"], answers["written"]) == ("1.0", "kept")
    planned = {name for name, fault in FAULTS.items() if fault.planned}
    assert {*answers["plans"], *answers["not applicable"]} | planned == set(FAULTS)
    assert answers["not applicable"]["isolate-leader-drop"] == "a single server that has nothing"
    assert all(len(lines) == 1 for lines in answers["plans"].values())
    assert "suites.tests.throwaway:WordsLock/register/unfenced-cut-client-drop" in answers["cases"]
    assert {"none", "cut-client-drop", "kill-server"} <= set(answers["trials"])
