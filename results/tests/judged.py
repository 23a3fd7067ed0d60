"""Keeps histories and the verdicts on them, to judge them again: ``python -m results.tests.judged RUN NAME``.

The command stores a run's histories in `judged/NAME.tar.xz` beside this file, with the verdict on each property of each
history, and the kind and rows of each violation. It does not store stories, nor the reasons of judgements.
"""

import json
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from checkers.check import check
from checkers.claims import Verdict
from checkers.history.history import History, load
from checkers.judging.judgement import judge_all

FOLDER: Final = Path(__file__).with_suffix("")
ANSWERS: Final = "judgements.json"
Answers = dict[str, list[object]]  # property → its verdict, and [kind, row, ...] of each violation


def judged(history: History) -> Answers:
    results = check(history)
    return {
        result.property: [judgement.word.value, *([violation.kind, *violation.rows] for violation in result.violations)]
        for result, judgement in zip(results, judge_all(results, history), strict=True)
    }


def keep(run: Path, name: str) -> None:
    files = {file.relative_to(run / "trials").as_posix(): file for file in sorted(run.glob("trials/*/*.arrow"))}
    answers = json.dumps({name: judged(load(file)) for name, file in files.items()}, indent=0).encode()
    contents = {ANSWERS: answers, **{place: file.read_bytes() for place, file in files.items()}}
    with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz") as archive:
        for place, content in contents.items():
            entry = tarfile.TarInfo(place)
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))


def kept(archive: Path, folder: Path) -> dict[str, Answers]:
    """Unpack an archive. Returns each history's file, relative to the folder → the stored answers."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    answers: dict[str, Answers] = json.loads((folder / ANSWERS).read_text())
    return {
        file: {name: [Verdict(str(word)).value, *broken] for name, (word, *broken) in of.items()}
        for file, of in answers.items()
    }


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
