"""The client of what a lock protects: of the fenced store or, in store mode `guarded`, of the lock service itself."""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from checkers.row_format import Reason
from infra.store.store import Mode, Read, Store, StoreError, Unavailable, Unknown
from suites.lock import Grant, Guards, Indeterminate, LockClient, Refused, in_doubt
from suites.worker.process_spec import GUARDED, Spec

T = TypeVar("T")


class FencedStoreClient:
    """One worker's connection to the store. An unanswered access raises `infra.store.store.StoreError`.

    asks: called before each request to the store. An access takes one request, or several.
    """

    def __init__(self, store: Store, spec: Spec) -> None:
        self.asks: Callable[[], None] = lambda: None
        store.asks = lambda: self.asks()
        self.store = store
        self._counts_jobs = spec.store_mode == Mode.IDEMPOTENCY_KEY

    def read(self, key: str, grant: Grant) -> Read | None:
        """What the key holds, or None: refused."""
        return self.store.read(key, grant.token, grant.owner)

    def write(self, key: str, grant: Grant, value: int, base: int | None, elements: Sequence[int] | None) -> bool:
        """Whether it was accepted. base: the value of the state that it was made from."""
        return self.store.write(key, value, grant.token, grant.owner, elements, base)

    def claim(self, key: str, job: int) -> bool:
        """Whether this job is still to be done, as far as is known where the data are kept."""
        return not self._counts_jobs or self.store.claim(key, job)

    def close(self) -> None:
        """Let go of the connection; never raises."""
        self.store.close()


class GuardedStoreClient:
    """The same where the lock service keeps the data. A grant no longer valid is refused as a stale token is."""

    asks: Callable[[], None]  # never called: nobody sees the requests of the lock's client here

    def __init__(self, client: LockClient) -> None:
        self._client = cast(Guards, client)

    def read(self, key: str, grant: Grant) -> Read | None:
        contents = _answer(lambda: self._client.read(grant, key))
        return None if contents is None else Read(contents[0], tuple(contents[1]))

    def write(self, key: str, grant: Grant, value: int, _base: int | None, elements: Sequence[int] | None) -> bool:
        return bool(_answer(lambda: self._client.write(grant, key, value, elements or ())))

    def claim(self, _key: str, _job: int) -> bool:
        return True

    def close(self) -> None:
        """The lock's own connection is closed with the lock."""


StoreClient = FencedStoreClient | GuardedStoreClient


def connect(spec: Spec, client: LockClient) -> StoreClient:
    """Raises Indeterminate where nothing answers now."""
    if spec.store_mode == GUARDED:
        return GuardedStoreClient(client)
    try:
        return FencedStoreClient(Store.open(spec.store_dsn, Mode(spec.store_mode), timeout=spec.store_timeout), spec)
    except StoreError as error:
        raise Indeterminate(str(error)) from error


def _answer(request: Callable[[], T]) -> T | None:
    """None: the grant was refused. Raises StoreError."""
    try:
        return request()
    except Refused as refusal:
        if refusal.reason in (Reason.NOT_OWNER, Reason.STALE_TOKEN):
            return None
        raise Unavailable(str(refusal)) from refusal
    except Exception as error:
        raise Unknown(in_doubt(error)) from error
