"""Kind of finding → the sentence that ends its story: what was broken, and what that costs. Also for models.

In braces stand `{at}` (the time of the finding), `{permits}`, and a property for the bound on it.
"""

from collections.abc import Mapping
from typing import Final

CONCLUSIONS: Final[Mapping[str, str]] = {
    # Who held
    "granted-while-held": "So the service granted the lock although the grant before was still in force.",
    "granted-inside-a-hold": "So the lock was granted while an earlier grant was certainly in force.",
    "no-room": "So these grants cannot have followed one another: at some moment two were in force.",
    "overlap": "So two were inside at the same time.",
    "second-acquire": "So the lock was acquired by somebody who held it already.",
    "too-many": "So more owners held it at once than there are permits.",
    "too-many-inside": "So more were inside at the same time than the {permits} permits of the lock allow.",
    "too-many-granted": "So the service had more grants in force than its {permits} permits.",
    "freed-by-inner-release": "So another got the lock after the holder's inner release, and before its outer one.",
    "believed-past-lease": "So, after its lease could have ended, a client believed for longer than the bound of "
    "{honest-belief} that it still held the lock.",
    "believed-too-long": "So, after another got the lock, a client believed for longer than the bound of "
    "{honest-belief} that it still held it.",
    # Renewals, releases, leases
    "renewed-after-release": "So a renewal was acknowledged after the release.",
    "renewed-though-lost": "So a renewal was acknowledged although the lock was another's by then.",
    "renewed-by-nobody": "So a renewal was acknowledged although no server could have answered it.",
    "renewal-lied": "So a renewal was acknowledged although the lock had gone to another.",
    "refused-though-held": "So a holder was told that its lease was over before it could have ended.",
    "granted-though-over": "So the lock was granted on a lease that the service had called over.",
    "lost-early": "So a lease was over before its time.",
    "release-by-another": "So the lock was released by somebody who cannot have held it.",
    "release-lied": "So a release was acknowledged although the lock had gone to another.",
    "never-freed": "So what the dead holder held was never given to anybody who asked for it.",
    "released-in-vain": "So releases had no effect: the lock was granted only when its last holder's lease could have "
    "ended, at {at}.",
    "handed-over-late": "So nobody got the lock within the bound of {hand-over}, though it could have been granted to "
    "somebody who waited.",
    # Who was refused, or waited
    "refused-while-free": "So a try was refused although the lock was free for it.",
    "kept-by-another-name": "So somebody was kept from a lock that nobody else held or asked for.",
    "reader-refused": "So a reader was kept out though nobody wrote or asked to write.",
    "nested-refused": "So the lock was refused to the one that held it.",
    "overtaken": "So the lock went first to one that had not yet asked when the other was in the queue.",
    "herd": "So releases woke more clients than could get in.",
    "deadlock": "So each of them waited for what another held, for longer than a lease lasts.",
    # Tokens
    "token-not-larger": "So a later grant got a token that is not larger than an earlier one's.",
    "token-repeated": "So two grants got the same token.",
    "token-changed": "So the holder was given another grant, though its first was still in force.",
    # What was accepted, or read
    "stale-write-accepted": "So a write was accepted that a later holder had already overtaken.",
    "stale-read": "So a read was answered with what a later holder had already overtaken.",
    "second-write-accepted": "So a strict store accepted a second access under a token that it had already seen.",
    "needless-refusal": "So the store refused an access that nothing before it forbids.",
    "value-never-written": "So a value was read that nobody wrote.",
    "refused-value-read": "So a value was read whose write had been refused.",
    "value-read-before-write": "So a value was read before its write was sent.",
    "value-read-below-its-token": "So a read under a lower token saw what was written under a higher one.",
    "not-the-latest-value": "So a read did not return the latest value.",
    "overwritten-value-read-later": "So a later token's read saw a value that was no longer the last of its token.",
    "no-order-within-token": "So the accesses under one token have no order that explains what was read.",
    "no-order-of-values": "Each of these values must have been overwritten before the other was.",
    "values-in-a-circle": "Each of these values can only have come after the other.",
    "value-replaced-twice": "So a value that was written once was compared and replaced twice.",
    "failed-without-reason": "So the compare-and-set failed although the value can only have been the expected one.",
    "no-order": "So no order of these operations explains all their answers.",
    # Lists, sets, jobs
    "vanished": "So an element that was added is not in the final list, although no other write replaced the list.",
    "corrupt-list": "So the final list is not what its last writer wrote.",
    "element-duplicated": "So an element that was added once was read twice.",
    "element-lost": "So the element had been added, and no later read shows it.",
    "not-a-collection": "So what was read is no collection.",
    "done-twice": "So one job was done twice.",
    "sold-twice": "So both sold the same item: both sales were made from the same list, and acknowledged.",
}

_LOST: Final = "It costs data."
_AT_RISK: Final = "It can cost data."
_WAITING: Final = "It costs no data, only time."
_LOAD: Final = "It costs no data, only load."
COSTS: Final[Mapping[str, str]] = {
    kind: cost
    for cost, kinds in {
        _LOST: "lost-update vanished corrupt-list done-twice sold-twice value-never-written refused-value-read "
        "write-not-kept removed-write-kept",
        # Several inside, or a client or a member that does not know what the service decided
        _AT_RISK: "granted-while-held no-room overlap too-many-inside too-many-granted freed-by-inner-release "
        "believed-past-lease believed-too-long renewed-after-release renewed-though-lost renewed-by-nobody "
        "refused-though-held granted-though-over released-anothers members-differ grant-not-kept "
        # Tokens and fences
        "token-not-larger token-repeated token-changed stale-write-accepted stale-read second-write-accepted "
        "value-read-before-write value-read-below-its-token not-the-latest-value overwritten-value-read-later "
        "no-order-within-token no-order",
        _WAITING: "never-freed released-in-vain handed-over-late freed-late kept-by-a-hung-holder kept-by-another-name "
        "reader-refused nested-refused hung-call gave-up-early overtaken deadlock not-recovered needless-refusal "
        "released-grant-kept refused-while-free",
        _LOAD: "herd",
    }.items()
    for kind in kinds.split()
}
"""Kind of finding of a property → what it costs those who rely on the lock."""
