"""The answer to a case: which judgement of several trials counts, and what a test makes of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from checkers.claims import Verdict
from checkers.judging.excuses_by_fault import OF_A_VERSION
from checkers.judging.judgement import Judgement
from results.record import SAYING_NOTHING, decisive
from results.text import plain

OUR_FAILURE: Final = (
    "The suite failed to stress the property, which says nothing about the lock. Run it again with another --seed, and "
    "on a quiet machine; where it comes back, report it with the folder of the run."
)


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    judgement: Judgement  # the one that counts; of its trial are also page, seed and version
    page: Path
    attempts: int  # how many trials there were
    seed: int = 0
    version: str = ""  # of the servers
    page_story: tuple[str, ...] = ()  # the story of the judgement, as on the page

    @property
    def story(self) -> tuple[str, ...]:
        """The story as plain text; empty where nothing broke."""
        violation = decisive(self.judgement)
        return tuple(map(plain, self.page_story or (violation.story if violation is not None else ())))

    def must_hold(self) -> None:
        """Fail the test when the verdict is one of the failing four, with the story and the page."""
        word = self.judgement.word
        if word.fails:
            lines = [f"{word}: {plain(self.judgement.because)}", *(f"  {line}" for line in self.story)]
            if word is Verdict.NOT_STRESSED:
                lines.append(f"  {OUR_FAILURE}")
            pytest.fail("\n".join([*lines, f"  see {plain(str(self.page))}"]), pytrace=False)

    def must_be_caught(self) -> None:
        """Fail the test when the property that must find a planted bug is not violated."""
        if self.judgement.word is not Verdict.VIOLATED:
            missed = f"a bug that was planted is not caught: {self.judgement.word}: {plain(self.judgement.because)}"
            pytest.fail(f"{missed}\n  see {plain(str(self.page))}", pytrace=False)


Answers = dict[tuple[str, str], list[CaseAnswer]]  # (lane, property) → the answer of each of the trials


def counting(answers: list[CaseAnswer], stage: str = "") -> CaseAnswer:
    """The answer that counts among the trials of one case: the heaviest. Exceptions: a positive control that fired in
    any trial counts as shown, and a property of a certificate as stressed (see `results.record.settled`). Nothing else
    hides a heavier trial. stage: of an upgrade; empty without one.
    """
    words = {answer.judgement.word for answer in answers}
    hidden = {Verdict.WEAKNESS_NOT_SHOWN} if Verdict.WEAKNESS_SHOWN in words else set()
    if stage and not words <= {*SAYING_NOTHING}:
        hidden.add(Verdict.NOT_STRESSED)
    counted = [answer for answer in answers if answer.judgement.word not in hidden]
    heaviest = min(counted, key=lambda answer: answer.judgement.word.weight)
    return replace(heaviest, attempts=len(answers))


def unpromised(answer: CaseAnswer) -> str:
    """What broke without a promise, or ""."""
    judgement = answer.judgement
    return judgement.because if judgement.word is Verdict.NOT_PROMISED_BROKEN else ""


def broken_unpromised(answers: Answers) -> set[str]:
    return {unpromised(answer) for given in answers.values() for answer in given} - {""}


def shown_of_a_version(answers: Answers) -> bool:
    """Whether a trial has shown a weakness that one version of a service may have and another not."""
    judgements = (answer.judgement for given in answers.values() for answer in given)
    reasons = {judgement.because for judgement in judgements if judgement.word is Verdict.WEAKNESS_SHOWN}
    return not reasons.isdisjoint(f"explained by {mechanism}" for mechanism in OF_A_VERSION)
