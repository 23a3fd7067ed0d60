"""Find, install (where we may) and start Docker Engine and its compose plugin, but never a second engine.

A second daemon in the same network namespace tears down the bridges of the first. So before we start one, we look for
an engine that answers, for another engine that the user chose (DOCKER_HOST, a context) and for a daemon's process.
Everything goes through the docker command line, which knows contexts, proxies and credentials; standard library only.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra.docker import machine
from infra.errors import Failed, NotPossible

ENGINE_STARTS_WITHIN = 60.0
"""Seconds a daemon may take until it answers (a cold start measures 2)."""
PID_FILES = {Path("/var/run/docker.pid"): "dockerd", Path("/var/run/docker/containerd/containerd.pid"): "containerd"}
"""Where the daemon and its helper write their process numbers -> what those processes are called."""
DAEMON_LOG = Path("/var/log/fencepost-dockerd.log")
"""The log of a daemon that we started, on machines without systemd."""
ROOM_NEEDED = 3.0
"""GB that all images and one build take."""
COMPOSE_PACKAGES = ("docker-compose-v2", "docker-compose-plugin", "docker-compose")
"""Names of the compose plugin: Ubuntu's, Docker's own, Debian's (whose bookworm still has version 1)."""
COMPOSE_SUITE = "trixie"
"""The oldest Debian suite with compose 2. Its package needs only libc 2.34 and runs on older suites."""

NO_ENGINE = "Docker Engine is needed: install it (docs.docker.com/engine/install), or start it, and try again"


@dataclass(frozen=True, slots=True)
class Engine:
    """What we know of the engine: `version` when it is running, else `why` it cannot be used."""

    state: Literal["running", "stopped", "absent", "refused"]
    version: str = ""
    why: str = ""


def docker(
    *args: str, timeout: float | None = 60.0, env: Mapping[str, str] | None = None, log: Path | None = None
) -> str:
    """Run the docker command line and return its stdout; raises Failed (see machine.run)."""
    return machine.run(["docker", *args], timeout=timeout, env=env, log=log)


def find() -> Engine:
    """Look for an engine, changing nothing."""
    if not shutil.which("docker"):
        return Engine("absent", why="no docker command line")
    try:
        return Engine("running", version=docker("version", "--format", "{{.Server.Version}}", timeout=15).strip())
    except Failed as error:
        why = str(error)
    if "permission denied" in why.lower():
        return Engine("refused", why="its socket refuses this user")
    if chosen := _chosen_elsewhere():
        return Engine("stopped", why=f"{chosen} does not answer")
    if pid := _daemon():
        return Engine("stopped", why=f"dockerd (process {pid}) runs but does not answer")
    if shutil.which("dockerd"):
        return Engine("stopped", why="installed, but not running")
    return Engine("absent", why="not installed")


def ensure() -> None:
    """Have a running engine. Raises NotPossible where only the user can provide one, Failed where starting it fails."""
    with machine.alone("engine", "waiting for another process that starts the engine"):
        engine = find()
        if engine.state == "running":
            return
        if engine.state == "refused":
            raise NotPossible("Docker's socket refuses this user: join the group docker, log in again (or run as root)")
        if chosen := _chosen_elsewhere():
            raise NotPossible(f"{chosen} does not answer: start it, or unset DOCKER_HOST and the docker context")
        started = time.monotonic()
        daemon = None
        if pid := _daemon():
            machine.say(f"waiting for dockerd (process {pid}), which runs but does not answer")
        else:
            _install()
            # The installation may have started the daemon: Debian's scripts do so where systemd runs.
            if not _daemon():
                daemon = _start()
        _await_answer(daemon)
        machine.say(f"Docker Engine {find().version} is running ({time.monotonic() - started:.0f} s)")


def compose() -> str | None:
    """Version of the compose plugin, or None when `docker compose` is not to be had."""
    with contextlib.suppress(Failed):
        return docker("compose", "version", "--short").strip().removeprefix("v")
    return None


def ensure_compose() -> None:
    """Have `docker compose` version 2 or newer; raises NotPossible or Failed."""
    with machine.alone("compose", "waiting for another process that installs compose"):
        if compose():
            return
        if not machine.has_apt():
            raise NotPossible("the compose plugin of Docker is needed: docs.docker.com/compose/install")
        if package := _compose_package():
            machine.install([package])
        else:
            _unpack_compose()
        if not compose():
            raise Failed("the compose plugin is installed, but `docker compose version` fails")


def room() -> float | None:
    """Free space for images in GB; None when the engine is on another machine."""
    root = Path(docker("info", "--format", "{{.DockerRootDir}}").strip())
    return shutil.disk_usage(root).free / 1e9 if root.exists() else None


def require_room() -> None:
    """Raise Failed when a build would run out of disk half-way."""
    free = room()
    if free is not None and free < ROOM_NEEDED:
        raise Failed(f"{free:.1f} GB free where Docker keeps its images; {ROOM_NEEDED:.0f} GB are needed to build ours")


def _chosen_elsewhere() -> str | None:
    """The engine that the user pointed docker at, if it is not the default one. We never start that engine."""
    if host := os.environ.get("DOCKER_HOST"):
        return f"DOCKER_HOST={host}"
    with contextlib.suppress(Failed):
        context = docker("context", "show").strip()
        if context != "default":
            return f"the docker context {context}"
    return None


def _daemon() -> int | None:
    """Process of a dockerd in our network namespace. A second daemon would tear down the bridges of that one."""
    ours = _network_of("self")
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().strip() == "dockerd" and _network_of(folder.name) == ours:
                return int(folder.name)
    return None


def _network_of(process: str) -> str:
    """Network namespace of a process; where there is no /proc (macOS) an empty string."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{process}/ns/net").readlink())
    return ""


def _install() -> None:
    """Install what is missing of daemon, command line and packet filter."""
    if not machine.has_apt():
        raise NotPossible(NO_ENGINE)
    missing = [] if shutil.which("dockerd") else ["docker.io", "iptables"]
    if not shutil.which("docker"):
        if machine.is_root():
            machine.refresh_apt()
        # Debian 13 split the command line off; before that, and on Ubuntu, it comes with the engine.
        missing.append("docker-cli" if machine.candidate("docker-cli") else "docker.io")
    if missing:
        machine.install(sorted(set(missing)))


def _start() -> "subprocess.Popen[bytes] | None":
    """Start the daemon and return its process, or None when systemd manages it."""
    if not machine.is_root():
        raise NotPossible("Docker Engine is not running, and we are not root: sudo systemctl start docker")
    if not machine.may_install():
        raise NotPossible("Docker Engine is not running, and you said no to starting it")
    if _systemd():
        machine.say("starting Docker Engine with systemd")
        machine.run(["systemctl", "start", "docker"], timeout=120)
        return None
    _forget_the_dead()
    machine.say(f"starting Docker Engine (its log: {DAEMON_LOG})")
    with DAEMON_LOG.open("ab") as log:
        # In a session of its own, the daemon outlives us and our terminal's Ctrl-C.
        return subprocess.Popen(
            ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
        )


def _forget_the_dead() -> None:
    """Remove pid files of a killed daemon: if another process has its number now, a new daemon would not start."""
    for path, name in PID_FILES.items():
        with contextlib.suppress(OSError, ValueError):
            process = Path(f"/proc/{int(path.read_text())}")
            # The command is empty when only the name of the process is left.
            command = (process / "cmdline").read_bytes() if process.exists() else b""
            if Path(command.split(b"\0")[0].decode()).name != name:
                path.unlink()


def _systemd() -> bool:
    """Whether systemd runs this machine (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def _await_answer(daemon: "subprocess.Popen[bytes] | None") -> None:
    """Wait until the engine answers. Raises Failed when it does not, and with the last line of its log when it dies."""
    deadline = time.monotonic() + ENGINE_STARTS_WITHIN
    while find().state != "running":
        if daemon and daemon.poll() is not None:
            lines = DAEMON_LOG.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise Failed(f"dockerd ended with status {daemon.returncode}: {lines[-1]} (more in {DAEMON_LOG})")
        if time.monotonic() > deadline:
            raise Failed(f"Docker Engine does not answer after {ENGINE_STARTS_WITHIN:.0f} s: {find().why}")
        time.sleep(0.1)


def _compose_package() -> str | None:
    """The package with compose 2 that this machine's apt offers us; None when it offers none, or we are not root."""
    if not machine.is_root():
        return None
    machine.refresh_apt()
    for package in COMPOSE_PACKAGES:
        version = machine.candidate(package)
        if version and not version.startswith("1."):
            return package
    return None


def _unpack_compose() -> None:
    """Take the plugin out of the Debian package of a newer suite, from the mirror this machine uses anyway.

    apt itself does the work, in separate folders, so signatures are checked and nothing of the system changes.
    """
    mirror = machine.debian_mirror()
    if not mirror:
        raise NotPossible("the compose plugin of Docker is needed: sudo apt-get install docker-compose-v2")
    machine.say(f"fetching the compose plugin out of Debian {COMPOSE_SUITE}'s package")
    with tempfile.TemporaryDirectory(prefix="fencepost-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt fetches as a user of its own
        (folder / "sources.list").write_text(f"deb {mirror} {COMPOSE_SUITE} main\n")
        (folder / "lists").mkdir()
        (folder / "cache").mkdir()
        options = {
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "APT::Sandbox::User": "root" if machine.is_root() else "",
            "Acquire::Languages": "none",
        }
        apt = ["apt-get", "-q", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
        machine.run([*apt, "update"], timeout=120)
        machine.run(["env", "-C", name, *apt, "download", "docker-compose"], timeout=300)
        (package,) = folder.glob("docker-compose_*.deb")
        machine.run(["dpkg-deb", "-x", str(package), str(folder / "tree")])
        plugins = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "cli-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "tree/usr/libexec/docker/cli-plugins/docker-compose", plugins / "docker-compose")
