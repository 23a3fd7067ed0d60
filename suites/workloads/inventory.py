"""Inventory: each element appended to the list sells the item whose number is the length of the list.

Two elements appended to the same list sold the same item twice, whichever of them is lost.
"""

from typing import ClassVar

from suites.workloads.set import Set


class Inventory(Set):
    name: ClassVar[str] = "inventory"
    properties: ClassVar[tuple[str, ...]] = ("no-duplicate", "no-lost-update")
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-reads-and-writes", "compare-owner", "compare-and-set")
