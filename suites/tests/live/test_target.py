"""The product against clusters that are not ours: the same verdicts, no secret is told, and nothing is left behind.

The clusters run beside the star (`infra.tests.live.staging`): Redis with client and server certificates and a user with
few rights, etcd with TLS and users, ZooKeeper with a `/fencepost` that one user owns.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checkers.claims import Verdict
from checkers.row_format import Reason
from infra.network import topology
from infra.tests.live.staging import PASSWORD, USER, Staging, staging
from results.record import TrialRecord
from results.run import Run
from results.storage.reading import RunContents, load_trial
from suites.lock import Refused, opened
from suites.locks import registry
from suites.tests import planted
from suites.tests.bench import ENDS, SOON
from suites.tests.live.lanes import LONG
from suites.worker.pool import ROOT

LEAKY = f"{planted.__file__}:Leaky"


class Done:
    """A run of the product that has ended."""

    def __init__(self, results: Path, there: Staging, targets: dict[str, str], *argv: str, **environ: str) -> None:
        secret = {name: value for backend in targets for name, value in there.secrets(backend).items()}
        for backend, addresses in targets.items():
            argv += ("--target", f"{backend}={'' if backend == 'zookeeper' else 'tls://'}{addresses}")
        given = ("-q", "-p", "no:cacheprovider", "--workload", "register", "--results", str(results), *argv)
        command, env = [sys.executable, "-m", "pytest", "suites/", *given], {**os.environ, **secret, **environ}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=ENDS)
        self.status = done.returncode
        self.said = done.stdout + done.stderr
        self.folders = sorted(path.parent for path in results.glob("*/run.json"))

    @property
    def run(self) -> Run:
        (folder,) = self.folders
        return Run.open(folder)

    @property
    def contents(self) -> RunContents:
        return self.run.read()

    @property
    def trials(self) -> list[TrialRecord]:
        return [load_trial(folder) for folder in sorted((self.run.path / "trials").iterdir())]

    def told(self) -> str:
        """Everything that the run printed and stored, as text, with histories decoded."""
        files = [path.read_bytes().decode(errors="replace") for path in self.run.path.rglob("*") if path.is_file()]
        errors = [text for trial in self.trials for lane in trial.lanes for text in lane.history.errors]
        return "\n".join([self.said, *files, *errors])


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staging]:
    with staging(tmp_path_factory.mktemp("staging")) as there:
        yield there


@pytest.fixture(scope="module")
def targets(there: Staging) -> dict[str, str]:
    return {"redis": there.redis(3), "etcd": there.etcd(3), "zookeeper": there.zookeeper()}


def hooks(there: Staging) -> Sequence[str]:
    container = f"{there.name}-{{name}}"
    return ("--hook", f"pause=docker pause {container}", "--hook", f"resume=docker unpause {container}")


def keys_of_redis(there: Staging) -> str:
    words = ["redis-cli", "--tls", "--cacert", "/tls/ca.pem", "--cert", "/tls/client.pem", "--key", "/tls/client.key"]
    words += ["--no-auth-warning", "--user", USER, "-a", PASSWORD, "info", "keyspace"]
    return "".join(there.says(f"redis{number}", words) for number in (1, 2, 3)).replace("# Keyspace", "").strip()


def nothing_is_left(there: Staging) -> bool:
    """Whether there are no traces of locks, counters or anything else."""
    etcd = there.says("etcd1", there.etcdctl("get", "--prefix", "--keys-only", "/fencepost")).strip()
    return (keys_of_redis(there), etcd, there.queues()) == ("", "", [])


def test_targets_are_judged_and_no_password_is_shown(there: Staging, targets: dict[str, str], tmp_path: Path) -> None:
    locks = ("--lock", LEAKY, "--lock", "etcd", "--lock", "zookeeper")
    faults = ("--faults", "pause-server,kill-server,isolate-leader-drop")
    done = Done(tmp_path, there, targets, *locks, *faults, *hooks(there))
    assert done.status == 0, done.said
    assert done.contents.problems == ()
    judged = [cell for cell in done.contents.cells if cell.page]
    assert {(cell.backend, cell.fault) for cell in judged} == {(backend, "pause-server") for backend in targets}
    upheld = {(cell.backend, cell.property) for cell in judged if cell.word is Verdict.UPHELD}
    assert {("redis", "server-exclusion"), ("etcd", "fenced-store"), ("zookeeper", "fenced-store")} <= upheld, upheld
    (because,) = {cell.because for cell in done.contents.cells if cell.fault == "kill-server"}
    assert because == "no control over the nodes of a target: --hook kill='...' and --hook start='...' give it"
    assert {frozenset(trial.about["versions"]) for trial in done.trials} == {
        frozenset(name for name in there.containers if topology.kind_of(name).name == backend) for backend in targets
    }
    assert done.run.about()["targets"] == {backend: where.split(",") for backend, where in targets.items()}
    text = done.told()
    assert "AUTH guest *** does not always help" in text, "it had something to hide"
    assert PASSWORD not in text
    assert nothing_is_left(there)


def test_errors_and_denials_hide_the_password(there: Staging, targets: dict[str, str], tmp_path: Path) -> None:
    loud, junit = LEAKY.replace(":Leaky", ":BreaksLater"), tmp_path / "junit.xml"
    both = {backend: targets[backend] for backend in ("redis", "etcd")}
    argv = ("--lock", loud, "--lock", "etcd", "--faults", "none", "--junitxml", str(junit))
    done = Done(tmp_path / "runs", there, both, *argv, FENCEPOST_ETCD_PASSWORD="wrong")
    assert done.status == 4
    for text in (done.said, junit.read_text(), "".join(done.contents.problems)):
        assert "LookupError: redis://guest:***@host" in text
        assert PASSWORD not in text
    assert PASSWORD not in done.told()
    errors = [str(error.text) for error in ElementTree.parse(junit).iter("error")]
    refused = [text for text in errors if text.startswith("the target etcd does not let etcd in: denied: ")]
    assert len(refused) == 1, "it is not tried again"
    assert nothing_is_left(there), "it is left as clean as after a trial that went well"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("backend", ["redis", "etcd", "zookeeper"])
def test_a_lock_with_the_wrong_password_is_denied(there: Staging, targets: dict[str, str], backend: str) -> None:
    access = replace(there.access(backend), password="wrong")
    with pytest.raises(Refused, match=r"^(?!.*wrong)") as caught:
        opened(registry.load(backend), targets[backend].split(","), LONG, access).acquire("denied", SOON)
    assert caught.value.reason is Reason.DENIED
