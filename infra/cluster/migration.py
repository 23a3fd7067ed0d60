"""Takes a node's data to a version that does not start on them as they are: see `infra.backends.backend.Migration`.

While the node is down, containers of our own stand beside it, without a network, and run the migration's script on its
disk. A failure before the last step changes nothing.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from docker import DockerClient
from docker.errors import APIError
from requests.exceptions import RequestException

from infra.backends.backend import Migration
from infra.cluster.exit_reason import last_words
from infra.docker import reaper
from infra.docker.client import failing
from infra.errors import Failed

WITHIN: Final = 180  # seconds for a dump or a restore; with the data of our locks they take two


class Carry:
    """Carries a node's data to another image. Every verb raises Failed with the last words of what failed."""

    def __init__(self, client: DockerClient, container: str, former: str, image: str, migration: Migration) -> None:
        """container: the node's. former: the image that wrote its data."""
        self._client = client
        self._container = container
        self._former = former
        self._image = image
        self._migration = migration
        self.how: Final = migration.how

    def needed(self) -> bool:
        """Whether the image does not start on the data as they are; False if there are no data."""
        data, server = self._run(self._image, "versions").splitlines()[:2]
        return self._migration.needed(data, server)

    def over(self) -> None:
        """Replace the node's data by a copy in the format of the image. The node is down."""
        self._run(self._former, "dump")
        try:
            self._run(self._image, "restore")
        except Failed:
            self.done()
            raise

    def back(self) -> None:
        """Undo `over`: put the former data back in their place. The node is down."""
        self._run(self._image, "back")

    def done(self) -> None:
        """Remove what `over` kept: the dump and the former data."""
        self._run(self._image, "forget")

    def _run(self, image: str, function: str) -> str:
        """Run a function of the script beside the node, on its disk. Returns what it wrote to its standard output."""
        api = self._client.api
        with self._beside(image, f"{self._migration.script}\n{function}") as beside:
            try:
                api.start(beside)
                status = api.wait(beside, timeout=WITHIN)["StatusCode"]
                log: bytes = api.logs(beside, stdout=status == 0, timestamps=status != 0)
            except (APIError, RequestException) as error:
                raise Failed(f"{self._container}: {self.how}: {getattr(error, 'explanation', error)}") from error
        if status != 0:
            raise Failed(f"{image}: {last_words(log)}")
        return log.decode(errors="replace")

    @contextlib.contextmanager
    def _beside(self, image: str, script: str) -> Iterator[str]:
        """A container with the node's disk, which is removed in the end, by the reaper if this process is gone."""
        api = self._client.api
        with failing(f"{self._container}: {self.how}"):
            config = api.inspect_container(self._container)["Config"]
            settings = [pair for pair in config["Env"] or () if pair.partition("=")[0] in self._migration.variables]
            labels = {name: config["Labels"][name] for name in (reaper.ENV, reaper.OWNER)}
            made: dict[str, Any] = api.create_container(
                image,
                [script],
                entrypoint=["sh", "-c"],
                user="root",
                environment=settings,
                labels=labels,
                host_config=api.create_host_config(network_mode="none", volumes_from=[self._container]),
            )
        try:
            yield made["Id"]
        finally:
            with contextlib.suppress(APIError):  # the reaper removes it with the rest
                api.remove_container(made["Id"], force=True)
