"""This machine: run commands, use its packages and settings, and take turns with other processes.

Standard library only: the doctor uses this module when nothing else works yet.
"""

import ast
import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

from infra.errors import Failed, NotPossible

_SETTING = re.compile(r"Acquire::(https?::Proxy(::\S+)?|Check-(Valid-Until|Date)) .*")

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


def say(line: str) -> None:
    """Tell the user what is going on: on stderr, unless somebody else listens (`heard_by`)."""
    if listener := _listener.get():
        listener(line)
    else:
        print(f"fencepost: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """In the block, and in this thread, have `listener` hear what `say` says."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def run(
    argv: Sequence[str], *, timeout: float | None = 60.0, env: Mapping[str, str] | None = None, log: Path | None = None
) -> str:
    """Run a command and return its stdout. Raises Failed with its last words if it cannot start, fails, or is too slow.

    timeout: seconds at most. env: added to our environment. log: a file that also gets stdout and stderr, in one.
    """
    words = " ".join(argv[:3])
    try:
        done = subprocess.run(
            argv,
            check=False,
            encoding="utf-8",
            env=dict(os.environ, LC_ALL="C.UTF-8", **(env or {})),
            errors="replace",
            stderr=subprocess.STDOUT if log else subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=timeout,
        )
    except OSError as error:
        raise Failed(f"{words}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{words}: no end after {timeout:.0f} s") from error
    if log:
        log.write_text(done.stdout)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        why = " | ".join(line.strip() for line in last) or f"status {done.returncode}"
        raise Failed(f"{words}: {why}" + (f" (all of it: {log})" if log else ""))
    return done.stdout


def is_root() -> bool:
    """Whether we may install packages and start daemons."""
    return os.geteuid() == 0


def cache_dir() -> Path:
    """Our folder in the user's cache: locks and answers that are costly to ask for again."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def alone(name: str, waiting: str = "") -> Iterator[None]:
    """Be the only process (and thread) of this user that does `name`. Says `waiting` if another one does it now.

    The kernel releases the lock when its holder dies.
    """
    with (cache_dir() / f"{name.replace('/', '-')}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- packages of Debian and Ubuntu ---


def has_apt() -> bool:
    """Whether this is Debian, Ubuntu or one of their children."""
    return Path("/usr/bin/apt-get").exists()


@functools.cache
def may_install() -> bool:
    """Ask once on a terminal whether packages may be installed; without one, or with YES=1, go ahead."""
    if os.environ.get("YES") == "1" or not sys.stdin.isatty():
        return True
    what = "Docker Engine and what builds its images; for its own tests a browser"
    print(f"fencepost needs packages that are not here yet ({what}).", file=sys.stderr)
    print("May it install them with apt and start the engine? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def install(packages: Sequence[str]) -> None:
    """Install Debian packages; raises NotPossible where we may not, Failed where apt cannot."""
    names = " ".join(packages)
    if not has_apt():
        raise NotPossible(f"{names} missing, and this is neither Debian nor Ubuntu: install it the way of this system")
    if not is_root():
        raise NotPossible(f"{names} missing, and we are not root: sudo apt-get install {names}")
    if not may_install():
        raise NotPossible(f"{names} missing, and you said no: apt-get install {names}")
    say(f"installing {names} with apt")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    refresh_apt()
    # A machine that has just booted may be upgrading itself: wait for its lock.
    command = ["apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *packages]
    run(command, timeout=1200, env=quiet)


@functools.cache
def refresh_apt() -> None:
    """Bring apt's lists up to date, once per process. Ignores errors: a source of the user's own may fail."""
    with contextlib.suppress(Failed):
        run(["apt-get", "update", "-q"], timeout=300)


def candidate(package: str) -> str | None:
    """Version that apt would install here, without epoch; None when it knows none."""
    for line in run(["apt-cache", "policy", package]).splitlines():
        name, _, version = line.strip().partition(": ")
        if name == "Candidate" and version != "(none)":
            return version.partition(":")[2] or version
    return None


@functools.cache
def apt_settings() -> list[str]:
    """Lines of this machine's apt.conf that a container needs as well: its proxies, and whether apt checks dates."""
    output = run(["apt-config", "dump"]) if has_apt() else ""
    return [line for line in output.splitlines() if _SETTING.fullmatch(line)]


@functools.cache
def debian_mirror() -> str | None:
    """The Debian mirror that this machine's apt uses; None when there is none (Ubuntu, macOS)."""
    if not has_apt():
        return None
    for line in run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"]).splitlines():
        origin, label, address = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian") and address.startswith("http"):
            return address
    return None


# --- its access to the network, which its containers need as well ---


def proxies() -> list[str]:
    """Names of the proxy variables that are set; docker build knows them without a declaration."""
    return [
        name
        for proxy in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
        for name in (proxy, proxy.upper())
        if os.environ.get(name)
    ]


def network() -> list[str]:
    """Options of a container that needs the internet: it shares our network if a proxy is on our loopback."""
    ways = [*(os.environ[name] for name in proxies() if "no_" not in name.lower()), *apt_settings()]
    local = any(re.search(r"//([^/@]*@)?(127\.|localhost)", way) for way in ways)
    return ["--network", "host"] if local else []


def go_settings() -> dict[str, str]:
    """The settings that say where this machine's Go gets modules from, without those that are empty."""
    names = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE")
    if shutil.which("go"):
        settings: dict[str, str] = json.loads(run(["go", "env", "-json", *names]))
    else:
        settings = {name: os.environ.get(name, "") for name in names}
    return {name: value for name, value in settings.items() if value}


def maven_settings() -> dict[str, str]:
    """The user's settings of Maven, which name mirrors, proxies and their passwords."""
    with contextlib.suppress(OSError):
        return {"MAVEN_SETTINGS": (Path.home() / ".m2" / "settings.xml").read_text()}
    return {}


def pip_settings() -> dict[str, str]:
    """The settings that say where this machine's pip gets packages from, as variables that pip knows."""
    pattern = r"^(?:global|:env:)\.(index-url|extra-index-url|trusted-host|proxy)=(.*)$"
    listed = re.findall(pattern, run([sys.executable, "-m", "pip", "config", "list"]), re.MULTILINE)
    # What comes from its environment is listed first, and weighs more than what its files say.
    settings = {name: " ".join(ast.literal_eval(value).split()) for name, value in reversed(listed)}
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings.items()}
