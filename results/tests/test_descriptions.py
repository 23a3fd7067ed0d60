"""What faults, locks, properties and mechanisms are said to be."""

import re
from typing import Any

import pytest

from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.properties.all_properties import PROPERTIES
from results.report.descriptions import GROUPS, UNGROUPED, Descriptions, explained, mechanism, property_text


def test_every_property_is_described_in_a_few_sentences_and_every_mechanism_in_half_a_sentence() -> None:
    for name in PROPERTIES:
        text = property_text(name)
        assert 1 <= len(re.findall(r"[.!?](?:\s|$)", text)) <= 5, name
        assert not {"`", "\n"} & {*text}, name
    for name in MECHANISMS:
        assert re.fullmatch(r"[a-z][^\n:]{15,140}[^.]", mechanism(name)), name
    assert (property_text("of-another-version"), mechanism("of-another-version")) == ("", "")


def test_of_a_module_with_several_properties_each_has_its_own_sentence() -> None:
    owner, crash = map(property_text, ("owner-release", "crash-release"))
    assert owner.startswith("The holder's release or death ends a lock, and nobody else ends it. owner-release asks")
    assert crash.split(". ")[0] == owner.split(". ")[0]
    assert "crash-release" not in owner


WOKEN = "explained by woken-all (everybody who waits watches the same thing)"
NEITHER = "overlap, which no-exclusion{} or client-clock{} does not explain"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("explained by woken-all", WOKEN),
        ("explained by woken-all: the machine itself", f"{WOKEN}: the machine itself"),
        (
            NEITHER.format("", ""),
            NEITHER.format(" (there is no lock, or its answer is ignored)", " (tokens are the clients' clocks)"),
        ),
        ("explained by magic-of-tomorrow", "explained by magic-of-tomorrow"),
        ("held", "held"),
    ],
)
def test_a_mechanism_says_in_words_what_it_means_where_it_stands(text: str, told: str) -> None:
    assert explained(text) == told


def test_what_a_run_stored_of_its_faults_and_locks_is_read() -> None:
    faults = {"kill": {"group": "servers", "text": "One. Two? 3.5 is no end. Four. Five! Six."}, "a+b": {"group": ""}}
    made = Descriptions.of({"described": {"faults": faults, "locks": {"mine": "a ``lock``.\n\nOf mine."}}})
    assert made.faults["kill"] == "One. Two? 3.5 is no end. Four. Five!"
    assert made.locks == {"mine": "A lock. Of mine."}
    assert [made.group(fault) for fault in ("none", "kill", "a+b", "other")] == ["", "servers", "several", UNGROUPED]


@pytest.mark.parametrize(
    "stored",
    [
        None,
        7,
        {},
        {"faults": 7, "locks": [1]},
        {"faults": {"kill": 7}},
        {"faults": {"kill": {"group": ["x"], "text": 7}}},
    ],
)
def test_whatever_else_was_stored_the_faults_are_ungrouped(stored: Any) -> None:
    made = Descriptions.of({"described": stored})
    assert (made.group("none"), made.group("kill"), made.faults.get("kill", "")) == ("", UNGROUPED, "")
    assert UNGROUPED in GROUPS
