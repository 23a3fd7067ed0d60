"""Kind of finding → the sentence that ends its story: what was broken. For properties and for models."""

from collections.abc import Mapping
from typing import Final

CONCLUSIONS: Final[Mapping[str, str]] = {
    # Who held
    "granted-while-held": "So the service granted the lock while the grant before was still in force.",
    "granted-inside-a-hold": "So the lock was granted while an earlier grant was certainly in force.",
    "no-room": "So the service's grants cannot have followed one another: there is no room for all of them.",
    "overlap": "So two were inside at the same time.",
    "second-acquire": "So the lock was acquired by somebody who held it already.",
    "too-many": "So more owners held it at once than there are permits.",
    "too-many-inside": "So more were inside at the same time than the lock has permits.",
    "too-many-granted": "So the service had more grants in force than it has permits.",
    "freed-by-inner-release": "So the inner release freed the lock, and another got it before the outer one.",
    "believed-past-lease": "So a client believed that it held the lock for longer than the bound after its lease could "
    "have ended.",
    "believed-too-long": "So a client believed that it held the lock for longer than the bound after another got it.",
    # Renewals, releases, leases
    "renewed-after-release": "So the service acknowledged a renewal of a lock that it had already released.",
    "renewed-though-lost": "So a renewal was acknowledged although the lock was another's by then.",
    "renewal-lied": "So a renewal was acknowledged although the lock had gone to another.",
    "refused-though-held": "So a holder was told that its lease was over, which was still in force.",
    "granted-though-over": "So the lock was granted on a lease that the service had called over.",
    "lost-early": "So a lease was over before its time.",
    "release-by-another": "So the lock was released by somebody who cannot have held it.",
    "release-lied": "So a release was acknowledged although the lock had gone to another.",
    "never-freed": "So what the dead holder held was never given to anybody who asked for it.",
    "released-in-vain": "So releases were acknowledged and had no effect: while somebody waited, each lock was granted "
    "only when the lease of its last holder could have ended.",
    "handed-over-late": "So nobody got the lock within the bound, though it was free and somebody waited for it.",
    "freed-late": "So what the dead holder held was freed later than the TTL and the bound that the lock declares.",
    "kept-by-a-hung-holder": "So a holder that hung kept everybody else out for longer than the TTL and the bound.",
    # Who was refused, or waited
    "refused-while-free": "So a try was refused although nobody can have held the lock.",
    "kept-by-another-name": "So somebody was kept from a lock that nobody else held or asked for.",
    "reader-refused": "So a reader was kept out though nobody wrote or asked to write.",
    "nested-refused": "So the lock was refused to the one that held it.",
    "hung-call": "So a call took longer than its timeout and the margin that the lock declares.",
    "overtaken": "So the lock went first to one that had not yet asked when the other was in the queue.",
    "herd": "So releases woke more than could get in: each acquire leaves the queue once, and may wake one other.",
    "deadlock": "So each of them waited for what another held, for longer than a lease lasts.",
    # Tokens
    "token-not-larger": "So a later grant got a token that is not larger than an earlier one's.",
    "token-repeated": "So two grants got the same token.",
    "token-changed": "So the holder was given another grant, though its first was still in force.",
    # What was accepted, or read
    "stale-write-accepted": "So a write was accepted that a later holder had already overtaken.",
    "stale-read": "So a read was answered with what a later holder had already overtaken.",
    "second-write-accepted": "So a strict store accepted a second access under a token that it had already seen.",
    "needless-refusal": "So the store refused an access although nothing can have raised its bar that high.",
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
    "lost-update": "So both were made from the same list, and what the one had written is lost.",
    "vanished": "So what was made from the final list is not in it, and nothing overwrote it.",
    "corrupt-list": "So the final list is not what its last writer wrote: its length is not that of its history.",
    "element-duplicated": "So an element that was added once was read twice.",
    "element-lost": "So the element had been added, and no later read shows it.",
    "not-a-collection": "So what was read is no collection.",
    "done-twice": "So one job was done twice.",
    "sold-twice": "So both sold the same item: both sales were made from the same list, and acknowledged.",
}
