"""The record layout: what a worker writes while it runs and what the loader reads afterwards.

A recording is one memory-mapped file per worker: a header page with the worker's controls, then fixed rows, one per
operation. The invocation fills a row before the request is sent, the completion fills in the rest and writes
``outcome`` last. The file is a shared mapping, so what was written survives SIGKILL of the worker; a row that was never
completed still says that its operation was invoked, and its outcome is unknown. Times are nanoseconds of
CLOCK_MONOTONIC, which all processes of one host share.

Standard library only: workers import this in virtual environments where nothing of ours is installed.
"""

import mmap
import struct
from enum import IntEnum

MAGIC = b"FENCEREC"
VERSION = 2

HEADER = 4096  # bytes before the first row: magic, version, row size, then the controls below

PREAMBLE = struct.Struct("<8sII")  # magic, format version, bytes per row

# Controls: single bytes and words, each written by one side only, so that no lock is needed.
RUN = 64  # harness: a `Command` value
STATE = 65  # worker: a `State` value

CLOCK_WANTED = 72  # harness: how far the worker's wall clock is to be ahead (int64, ns)
CLOCK_IS = 80  # worker: how far its wall clock is ahead (int64, ns)

PID = 88  # worker: its process id (int64)
ALIVE = 96  # worker: when its sentinel last ran (int64, ns)

MESSAGES = 512
"""Written by the tap (`suites.worker.message_tap`): for each of `VERBS` and each n up to `MOST_MESSAGES`, how many
calls of the verb had an n-th message from the server (uint16, at `messages_at`)."""
MOST_MESSAGES = 15

MAIN = 128
RENEWAL = 256
"""Where the controls of each of a worker's two threads begin. The gate IN_RENEWAL is the renewal thread's, the others
are the main thread's, so that both can be held at once."""

# Offsets from MAIN or RENEWAL.
ARMED_GATE = 0  # harness: the `Gate` to stop at, 0 for none
ARMED_ACTION = 1  # harness: the `Action` to take there; this and the next two are written before ARMED_GATE
ARMED_KEY = 8  # harness: the index of the key that must be held there, `NONE` for any (int64)
SPAN = 16  # harness: how long a call takes; how long after the next request a freeze comes (int64, ns)
THAWED = 2  # harness: 1 when the thread that was caught may go on
REACHED_GATE = 3  # worker: the gate at which the thread took the armed action; written after all other REACHED fields
PASSING = 4  # worker: 1 while the thread is at a gate, so that the harness knows when it can no longer be caught
ARMED_VERB = 5  # harness: for the gates of the tap, the verb, of `VERBS`
ARMED_MESSAGE = 6  # harness: for the gates of the tap, the number of the verb's message, from 1
TAPPING = 7  # the tap: as PASSING, 1 while a message of the thread is at a gate of the tap
REACHED_AT = 24  # worker: when the thread was caught (int64, ns)
REACHED_OWNER = 32  # worker: the owner of the grant that the thread held there, or a waiting thread's session (int64)
REACHED_KEY = 40  # worker: the index of the key that the thread held, or waited for, there (int64)
REACHED_PROCESS = 48  # worker: the thread's process number (int64)
ROUNDS = 56
"""Worker: how many rounds of the thread have ended so far (int64). A round of the main thread lasts from an
acquire to its release and what follows; a round of the renewal thread is a request and its answer."""

CURRENT = 64  # worker: the offset of the row of the thread's unanswered request to a lock, 0 for none (int64)

COUNT = struct.Struct("<H")
WORD = struct.Struct("<q")


def word(page: mmap.mmap, at: int) -> int:
    value: int = WORD.unpack_from(page, at)[0]
    return value


def messages_at(verb: "F", number: int) -> int:
    """The offset of the count of calls of this verb that had a message of this number: see MESSAGES."""
    return MESSAGES + COUNT.size * ((MOST_MESSAGES + 1) * verb + number)


def reach(page: mmap.mmap, thread: int, gate: "Gate", at: int, owner: int, key: int, process: int) -> None:
    """Note that a thread (MAIN or RENEWAL) was caught at a gate, `at` ns: see REACHED_OWNER and so on."""
    struct.pack_into("<qqqq", page, thread + REACHED_AT, at, owner, key, process)
    page[thread + REACHED_GATE] = gate


ROW = struct.Struct("<qqqqqqqqqiiIBBBB")
"""inv, ret, sent, ttl, token, owner, value, base, session, process, error, key, f, outcome, reason, flags."""

# Offsets in a row that a completion writes to.
RET = 8
ANSWER = struct.Struct("<qqqqq")  # at RET: ret, sent, ttl, token, owner
VALUE = 48
BASE = 56
SESSION = 64
ERROR = 76
OUTCOME = 85  # the completion writes this byte last
REASON = 86

FIELDS = (
    *((name, "<i8") for name in ("inv", "ret", "sent", "ttl", "token", "owner", "value", "base", "session")),
    ("process", "<i4"),
    ("error", "<i4"),
    ("key", "<u4"),
    *((name, "u1") for name in ("f", "outcome", "reason", "flags")),
)
"""Columns of a history, in row order, as NumPy type strings.

inv      ns; invocation. 0 marks the end of the rows in use.
ret      ns; completion, 0 while there is none.
sent     ns; acquire: invocation of the earliest request that the grant rests on; lost: when the client's belief ended.
         0 if it does not apply.
ttl      ns; granted acquire: the effective TTL that the server gave, 0 for locks without one. Other acquire: how long
         it was told to wait at most, 0 for as long as `Facts.patience`.
token    fencing token of the grant, `NONE` if there is none.
owner    identity of the grant (63 random bits), 0 for none. Identities are grants, never processes.
value    write: the value written (unique in its lane); read: the value returned; `NONE` for the initial value.
         acquire: how often the client was woken while it waited, `NONE` if it does not tell. effect: the job.
base     set workload. write: the value of the state that was read before; final read: number of elements.
         acquire: ns at which the request that put it into the queue was answered, `NONE` if it does not tell.
         lost: ns at which the client last said that it holds, if it is asked, else `NONE`.
session  identity of the lease or session (etcd lease id, ZooKeeper session id), 0 for none. Of a refused
         acquire: the session that the service said is over.
process  logical process; after an unknown outcome its thread goes on under a new number. In a lane with n workers,
         process p belongs to worker p mod n, and to that worker's renewal thread if p div n is odd.
error    index into the lane's table of error texts, 0 for none.
key      index into the lane's keys.
"""

NONE = -1  # no token; the initial value
INFINITY = 1 << 62  # ns; later than anything, with room to add a TTL


class F(IntEnum):
    ACQUIRE = 1
    TRY_ACQUIRE = 2
    RENEW = 3
    RELEASE = 4
    READ = 5
    WRITE = 6
    SESSION_OPEN = 7
    KEEP_ALIVE = 8
    SESSION_CLOSE = 9
    BELIEF = 10  # a probe of the client's own opinion: ok = it believes that it holds ``owner``, fail = it does not
    LOST = 11
    """The client noticed that it no longer holds ``owner``: from here on it is not inside. ``sent`` is when its belief
    ended, so when it was due to notice; from then until this operation it did not run. If a client is asked for its
    belief, that may have ended at any time since ``base``, when the client last said that it holds."""
    EFFECT = 12  # the holder did the job ``value``, which no fence can refuse and nobody can undo (it sent an e-mail)
    STALL = 13
    """The machine stalled the process: from its invocation to its completion the worker's sentinel thread, which sleeps
    for short times only, did not run, or another of its threads waited for a CPU for most of that time."""
    CAS = 14
    """Compare and set: ``base`` is what was expected, ``value`` what was to be stored. The suite never records this
    kind and the kinds below: they come with histories from elsewhere."""
    APPEND = 15  # ``value`` was appended to what stands under the key
    ADD = 16  # ``value`` was added: to a set as an element, to a counter as a number
    TRANSACT = 17  # ``value`` is reads and writes, done at once: ``(("r", key, value), ("w", key, value), ...)``
    GENERATE = 18  # ``value`` is the identity that was handed out


ACQUIRES = (F.ACQUIRE, F.TRY_ACQUIRE)  # operations that ask for a lock
OF_SESSIONS = (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE)  # operations that concern all locks of a client
VERBS = {F.ACQUIRE: F.ACQUIRE, F.TRY_ACQUIRE: F.ACQUIRE, F.RELEASE: F.RELEASE, F.RENEW: F.RENEW, F.KEEP_ALIVE: F.RENEW}
"""Operation that a worker asks of a lock → the verb of the lock."""


class Outcome(IntEnum):
    """How an operation ended. PENDING (no answer was ever recorded) is read as INFO."""

    PENDING = 0
    OK = 1
    FAIL = 2  # it certainly did not happen
    INFO = 3  # unknown: it may have happened, may happen later, or never


class Reason(IntEnum):
    """Why an operation failed. Only HELD is evidence that somebody held the lock."""

    NONE = 0
    HELD = 1
    NOT_OWNER = 2
    STALE_TOKEN = 3
    UNAVAILABLE = 4
    DENIED = 5
    TIMEOUT = 6  # an acquire whose own timeout passed, and which left nothing behind: no evidence of anything


NOT_ASKED = (Reason.UNAVAILABLE, Reason.DENIED, Reason.NOT_OWNER)
"""Reasons with which an acquire fails that did not wait for the lock."""

FINAL = 1  # flags: a read after everything else, when the trial had settled
LATE = 2  # flags: a write, or one more release, sent on purpose after the release: it must change nothing
SHARED = 4  # flags: a reader's acquire (and its release), which tolerates other readers beside it
NESTED = 8  # flags: an acquire of what this client holds already, or the release that undoes it: part of that grant


class Gate(IntEnum):
    """Named points in a worker at which an `Action` can happen to it while it holds a lock, or waits for one."""

    AFTER_ACQUIRE = 1
    BETWEEN_READ_AND_WRITE = 2
    BEFORE_RELEASE = 3
    IN_RENEWAL = 4  # just before a renewal or keep-alive is sent, by the thread that sends them
    WHILE_WAITING = 5  # just before a keep-alive is sent, while the worker holds nothing and waits for a lock
    AFTER_RENEWAL = 6  # just after a renewal or keep-alive was acknowledged, by the same thread
    AT_REQUEST = 7  # the n-th request of an acquire or a release goes to the server: see `suites.worker.message_tap`
    AT_ANSWER = 8  # the n-th message of the server in an acquire or a release is on its way to the client
    AT_RENEWAL_REQUEST = 9  # as AT_REQUEST, of a renewal or keep-alive
    AT_RENEWAL_ANSWER = 10  # as AT_ANSWER, of a renewal or keep-alive
    BETWEEN_REQUESTS = 11  # between two requests to the store that one access takes, or at BETWEEN_READ_AND_WRITE


class Action(IntEnum):
    FREEZE = 1
    """The whole process stops (SIGSTOP), renewal included, until it is continued: a long GC pause. With a SPAN it stops
    that long after its next request begins, whatever it does then."""
    STALL = 2
    """Only the thread at the gate waits until it is thawed, and then goes on where it was. A stalled main thread is a
    hung job, whose lock is renewed all the while. A stalled renewal thread is a hung renewal, which is sent late."""
    KILL = 3  # SIGKILL
    DIE = 4  # only at IN_RENEWAL: the thread ends and sends nothing; when thawed, another begins anew
    CALL = 5  # a stall that ends by itself after SPAN: a long call to another service
    LOSE = 6
    """Only at an answer: the answer and all later messages of the server on that connection are lost, and so is the
    client's next request for the same purpose, on any connection: by a reset."""
    LATE = 7
    """Only at a request: the request, and all that is sent on its connection later, waits until it is thawed. Then it
    is delivered, whether the client still waits for its answer or not."""
    RESET = 8  # only at an answer: the connection is reset instead
    CANCEL = 9  # only at an answer: the client is told to give up, and the answer waits until the thread is thawed


class Command(IntEnum):
    """What the harness asks of a worker."""

    WAIT = 0
    GO = 1
    FINISH = 2  # release what is held, close the client and exit
    STAY = 3  # as GO, and a worker that holds a lock for long goes on holding: a fault is on


class State(IntEnum):
    """How far a worker is."""

    STARTING = 0
    READY = 1
    RUNNING = 2
    DONE = 3
    BROKEN = 4  # the adapter raised what it may not raise: the trial is aborted, the text is among the errors
