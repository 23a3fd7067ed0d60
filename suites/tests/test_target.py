"""The product against clusters that are not ours: the same verdicts, nothing told that is secret, nothing left behind.

The clusters stand beside the star (`infra.tests.staging`): Redis with certificates of both sides and a user who may do
little, etcd with TLS and users, ZooKeeper with a `/fencepost` of which one user is the owner.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from checkers.claims import Word
from infra.tests.staging import PASSWORD, USER, Staging, staging
from results.reading import Contents, load_trial
from results.record import TrialRecord
from results.run import Run
from suites.tests import leaky
from suites.workers import ROOT

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("target")]

LEAKY = f"{leaky.__file__}:Leaky"


class Done:
    """A run of the product that has ended."""

    def __init__(self, results: Path, there: Staging, targets: dict[str, str], *argv: str, **environ: str) -> None:
        secret = {name: value for backend in targets for name, value in there.secrets(backend).items()}
        for backend, addresses in targets.items():
            argv += ("--target", f"{backend}={'' if backend == 'zookeeper' else 'tls://'}{addresses}")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "suites/",
                "-q",
                "-p",
                "no:cacheprovider",
                "--results",
                str(results),
                *argv,
            ],
            cwd=ROOT,
            env={**os.environ, **secret, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        self.status = done.returncode
        self.said = done.stdout + done.stderr
        self.folders = sorted(path.parent for path in results.glob("*/run.json"))

    @property
    def run(self) -> Run:
        (folder,) = self.folders
        return Run.open(folder)

    @property
    def contents(self) -> Contents:
        return self.run.read()

    @property
    def trials(self) -> list[TrialRecord]:
        return [load_trial(folder) for folder in sorted((self.run.path / "trials").iterdir())]

    def words(self, property: str, fault: str) -> set[Word]:
        return {cell.word for cell in self.contents.cells if (cell.property, cell.fault) == (property, fault)}

    def told(self) -> str:
        """Everything that it said and stored, as text, histories decoded."""
        files = [path.read_bytes().decode(errors="replace") for path in self.run.path.rglob("*") if path.is_file()]
        errors = [text for trial in self.trials for lane in trial.lanes for text in lane.history.errors]
        return "\n".join([self.said, *files, *errors])


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staging]:
    with staging(tmp_path_factory.mktemp("staging")) as there:
        yield there


@pytest.fixture(scope="module")
def redis(there: Staging) -> str:
    return there.redis(3)


def hooks(there: Staging) -> Sequence[str]:
    container = f"{there.name}-{{name}}"
    return ("--hook", f"pause=docker pause {container}", "--hook", f"resume=docker unpause {container}")


def keys_of_redis(there: Staging) -> str:
    words = ["redis-cli", "--tls", "--cacert", "/tls/ca.pem", "--cert", "/tls/client.pem", "--key", "/tls/client.key"]
    words += ["--no-auth-warning", "--user", USER, "-a", PASSWORD, "info", "keyspace"]
    return "".join(there.says(f"redis{number}", words) for number in (1, 2, 3)).replace("# Keyspace", "").strip()


class TestRedis:
    def test_its_verdicts_are_those_of_ours_and_nothing_secret_is_told(
        self, there: Staging, redis: str, tmp_path: Path
    ) -> None:
        argv = ("--lock", LEAKY, "--faults", "freeze-holder,pause-server,kill-server", *hooks(there))
        done = Done(tmp_path, there, {"redis": redis}, *argv)
        assert done.status == 0, done.said
        assert done.contents.problems == ()
        assert done.words("server-exclusion", "pause-server") == {Word.UPHELD}
        assert done.words("server-exclusion", "freeze-holder") == {Word.UPHELD}
        assert done.words("holder-exclusion", "freeze-holder") == {Word.BROKEN_AS_DOCUMENTED}
        (because,) = {cell.because for cell in done.contents.cells if cell.fault == "kill-server"}
        assert because == "no control over the nodes of a target: --hook kill='...' and --hook start='...' give it"
        assert all(trial.about["versions"].keys() == {"redis1", "redis2", "redis3"} for trial in done.trials)
        assert done.run.about()["targets"] == {"redis": redis.split(",")}
        told = done.told()
        assert "AUTH guest *** does not always help" in told, "it had something to hide"
        assert PASSWORD not in told
        assert keys_of_redis(there) == "", "lock, counter or anything else is left"

    def test_what_breaks_is_told_without_the_password(self, there: Staging, redis: str, tmp_path: Path) -> None:
        loud, junit = LEAKY.replace(":Leaky", ":BreaksLater"), tmp_path / "junit.xml"
        argv = ("--lock", loud, "--faults", "none", "-x", "--junitxml", str(junit))
        done = Done(tmp_path / "runs", there, {"redis": redis}, *argv)
        assert done.status == 1
        for told in (done.said, junit.read_text(), "".join(done.contents.problems)):
            assert "LookupError: redis://guest:***@host" in told
            assert PASSWORD not in told
        assert PASSWORD not in done.told()
        assert keys_of_redis(there) == "", "it is left as clean as after a trial that went well"


class TestEtcdAndZooKeeper:
    def test_their_verdicts_are_those_of_ours_side_by_side(self, there: Staging, tmp_path: Path) -> None:
        targets = {"etcd": there.etcd(3), "zookeeper": there.zookeeper()}
        locks = ("--lock", "etcd", "--lock", "zookeeper")
        faults = ("--faults", "cut-client-drop,pause-server,isolate-leader-drop")
        done = Done(tmp_path, there, targets, *locks, *faults, "-n", "2")
        assert done.status == 0, done.said
        assert {(cell.backend, cell.fault) for cell in done.contents.cells if cell.page} == {
            ("etcd", "cut-client-drop"),
            ("zookeeper", "cut-client-drop"),
        }
        for name in ("server-exclusion", "token-order"):
            assert done.words(name, "cut-client-drop") == {Word.UPHELD}
        assert PASSWORD not in done.told()
        assert there.says("etcd1", there.etcdctl("get", "--prefix", "--keys-only", "/fencepost")).strip() == ""
        assert there.queues() == []

    @pytest.mark.parametrize("backend", ["etcd", "zookeeper"])
    def test_the_wrong_password_ends_the_run_with_a_line(self, backend: str, there: Staging, tmp_path: Path) -> None:
        names = {"etcd": ["etcd1", "etcd2", "etcd3"], "zookeeper": ["zk1"]}[backend]
        addresses = ",".join(map(there.where, names))
        wrong = {f"FENCEPOST_{backend}_PASSWORD".upper(): "wrong"}
        done = Done(tmp_path, there, {backend: addresses}, "--faults", "none,cut-client-drop", **wrong)
        assert done.status == 4
        assert f"the target {backend} does not let {backend} in: denied: " in done.said
        events = (done.run.path / "events.jsonl").read_text().splitlines()
        boots = sum(json.loads(event)["event"] == "boot" for event in events)
        assert boots == 1, "it is not tried again for each fault"
        assert all(cell.page is None for cell in done.contents.cells), "nothing was run"
