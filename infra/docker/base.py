"""The base images `fencepost/base:<suite>`: a small Debian, pulled when a registry answers, else made by debootstrap.

Both ways give the slim layout (no documentation, no services started by packages). It contains this machine's own
settings for the network: its Debian mirror, its apt proxies and the certificates that it trusts.
"""

import os
import shutil
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

from infra.docker import machine
from infra.docker.engine import docker
from infra.errors import Failed, NotPossible

SUITES = ("trixie", "bookworm")
"""Debian's stable suites that images are built on, the default first. The base of sid is made on demand."""
REGISTRY_ANSWERS_WITHIN = 10.0
"""Seconds for a registry to name the image. We do not wait longer, since it may be out of reach."""
PULL_WITHIN = 600.0
"""Seconds for the layers to arrive, once a registry has answered."""

# What Debian's slim images leave out of every package, and their refusal to start services.
_SLIM = """\
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
"""
_APT = ('Acquire::Languages "none";', 'Acquire::Retries "3";')
_NO_SERVICES = "#!/bin/sh\nexit 101\n"


def name(suite: str) -> str:
    return f"fencepost/base:{suite}"


def ensure(suite: str) -> str:
    """Have the base image of `suite` and return its id. Raises NotPossible or Failed."""
    if made := image_id(name(suite)):
        return made
    with machine.alone(f"base-{suite}", f"waiting for another process that makes {name(suite)}"):
        if made := image_id(name(suite)):
            return made
        public = f"debian:{suite}-slim"
        started = time.monotonic()
        if image_id(public) or pull(public):
            _dress(public, suite)
        else:
            _debootstrap(suite)
        machine.say(f"{name(suite)} is ready ({time.monotonic() - started:.0f} s)")
        return image_id(name(suite)) or ""


def image_id(image: str) -> str | None:
    """Id of a local image, None when there is none of that name."""
    return docker("image", "ls", "--no-trunc", "--quiet", image).strip() or None


def pull(image: str) -> bool:
    """Pull an image; False when no registry answers in time or none has it."""
    machine.say(f"asking a registry for {image}")
    with (
        subprocess.Popen(
            ["docker", "pull", image], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as pulling,
        DefaultSelector() as selector,
    ):
        # The first line comes when the registry has said what the image consists of.
        assert pulling.stdout
        selector.register(pulling.stdout, EVENT_READ)
        try:
            if selector.select(REGISTRY_ANSWERS_WITHIN):
                pulling.communicate(timeout=PULL_WITHIN)
        except subprocess.TimeoutExpired:
            machine.say(f"{image} did not arrive within {PULL_WITHIN:.0f} s")
        if pulling.poll() is None:
            pulling.terminate()
    return pulling.returncode == 0


def certificate_file() -> Path | None:
    """The file with the certificates that this machine trusts, also those of a proxy; None where there is no file."""
    usual = ssl.get_default_verify_paths().cafile
    for place in (os.environ.get("SSL_CERT_FILE"), usual, "/etc/ssl/certs/ca-certificates.crt"):
        if place and Path(place).is_file():
            return Path(place)
    return None


def _write_own(root: Path, suite: str, mirror: str | None) -> None:
    """Write the files that make a Debian tree a base image of ours."""
    certificates = certificate_file()
    files = {
        "etc/apt/apt.conf.d/fencepost": "\n".join([*_APT, *machine.apt_settings(), ""]).encode(),
        "etc/dpkg/dpkg.cfg.d/fencepost": _SLIM.encode(),
        "etc/ssl/certs/ca-certificates.crt": certificates.read_bytes() if certificates else b"",
        "usr/sbin/policy-rc.d": _NO_SERVICES.encode(),
    }
    if mirror:
        files["etc/apt/sources.list"] = f"deb {mirror} {suite} main\n".encode()
    for path, content in files.items():
        if content:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
    (root / "usr/sbin/policy-rc.d").chmod(0o755)


def _dress(public: str, suite: str) -> None:
    """Make our base image from a pulled image of Debian."""
    mirror = machine.debian_mirror()
    with tempfile.TemporaryDirectory(prefix="fencepost-") as folder:
        _write_own(Path(folder) / "own", suite, mirror)
        drop = "RUN rm -f /etc/apt/sources.list.d/*\n" if mirror else ""
        (Path(folder) / "Dockerfile").write_text(f"FROM {public}\n{drop}COPY own /\n")
        docker(
            "build", "--quiet", "--tag", name(suite), "--label", f"fencepost.image=base:{suite}", folder,
            timeout=300, env={"DOCKER_BUILDKIT": "0"},
        )  # fmt: skip


def _debootstrap(suite: str) -> None:
    """Make our base image from Debian packages."""
    if not shutil.which("debootstrap"):
        if not (machine.has_apt() and machine.is_root()):
            raise NotPossible(
                f"no registry answers for debian:{suite}-slim, and making one needs debootstrap and root "
                f"(or: docker load an image of that name)"
            )
        machine.install(["debootstrap", "debian-archive-keyring"])
    if not machine.is_root():
        raise NotPossible(f"no registry answers for debian:{suite}-slim, and debootstrap needs root")
    machine.say(f"no registry answers: making {name(suite)} with debootstrap (about a minute)")
    mirror = machine.debian_mirror()
    # Not in /tmp: where that is a tmpfs it has no devices, and debootstrap refuses.
    with tempfile.TemporaryDirectory(prefix="fencepost-", dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        # Its mounts end with its mount namespace, even when it is killed half-way.
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", suite, str(root)]
        machine.run([*command, mirror] if mirror else command, timeout=1800)
        share = [f"usr/share/{waste}" for waste in ("doc", "info", "locale", "man")]
        for waste in ("var/cache/apt", "var/lib/apt/lists", "var/log", *share):
            shutil.rmtree(root / waste, ignore_errors=True)
        for needed in ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/log/apt"):
            (root / needed).mkdir(parents=True)
        _write_own(root, suite, mirror)
        label = f"LABEL fencepost.image=base:{suite}"
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            done = subprocess.run(
                ["docker", "import", "--change", label, "--change", 'CMD ["bash"]', "-", name(suite)],
                stdin=tar.stdout, capture_output=True, check=False, text=True, timeout=300,
            )  # fmt: skip
        if tar.returncode or done.returncode:
            raise Failed(f"docker import of {name(suite)}: {done.stderr.strip()}")
