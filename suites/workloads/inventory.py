"""Inventory: each element of the list sells an item, the one that the list's length numbers.

Two that were made from the same list sold the same item twice, whichever of them is lost.
"""

from typing import ClassVar

from suites.workloads.set import Set


class Inventory(Set):
    name: ClassVar[str] = "inventory"
    properties: ClassVar[tuple[str, ...]] = ("no-duplicate", "no-lost-update")
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-reads-and-writes", "compare-owner", "compare-and-set")
