"""Older formats are read, newer ones are named; summaries obey their schema; stored histories are judged as before."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from checkers.claims import Verdict
from checkers.history.history import load
from checkers.tests.build import message_of
from results.commands import schema
from results.record import NotRun
from results.run import Run
from results.storage import files, summary
from results.storage.reading import RunContents, load_trial
from results.tests import hostile, samples
from results.tests.judged import FOLDER, judged, kept
from results.tests.test_damage import FORMATS, RUNS, mutated, some

SCHEMA = schema.schema()
PUBLISHED = json.loads((FORMATS / "summary-3.schema.json").read_text("utf-8"))
"""The schema of the format as it was published first."""


def described(schema: Any) -> Any:
    """The schema, changed to allow no key that it does not describe."""
    if not isinstance(schema, dict):
        return [described(item) for item in schema] if isinstance(schema, list) else schema
    made = {name: described(value) for name, value in schema.items()}
    if "properties" in made and isinstance(made.get("type"), str):
        made.setdefault("additionalProperties", False)
    return made


def test_every_readable_format_has_a_fixture_and_the_current_format_a_schema() -> None:
    assert {int(name) for name in RUNS} == set(files.READABLE)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["format"]["const"] == files.FORMAT


def test_a_run_of_an_older_format_and_its_summary_are_read(old: Run) -> None:
    contents, number = old.read(), json.loads((old.path / "run.json").read_text())["format"]
    assert contents.problems == ()
    words = {(cell.lane, cell.property): cell.word for cell in contents.cells}
    assert words["redis/register/unfenced", "fenced-store"] is Verdict.WEAKNESS_SHOWN
    assert words["etcd/set/fence-reads-and-writes", "no-lost-update"] is Verdict.UPHELD
    assert {cell.version for cell in contents.cells} == {"3.5.16", "8.0.2"}
    assert {(lane.lane, lane.started[:10]) for lane in contents.lanes} == {(lane, "2026-11-22") for lane, _ in words}
    assert [lane.measures is None for lane in contents.lanes] == [number == 1] * 2
    made, head = summary.load(old.path), summary.load_head(old.path)
    assert {cell.trial for cell in made.cells} == {cell.trial for cell in contents.cells}
    assert all(getattr(made, name) == getattr(head, name) for name in summary.Head.__slots__)
    assert (made.words[Verdict.WEAKNESS_SHOWN], made.started) == (2, "2026-11-22T07:31:15+00:00")
    assert old.head()[1] == "closed"


def contents_of(run: Run) -> RunContents:
    made = summary.load(run.path)
    return RunContents(made.cells, made.lanes, made.problems)


def test_an_old_run_can_be_loaded_redrawn_and_closed_in_the_current_format(old: Run) -> None:
    for folder in sorted((old.path / "trials").iterdir()):
        record = load_trial(folder)
        assert all(len(lane.history) > 50 for lane in record.lanes)
        assert record.name in old.draw_trial(folder).read_text("utf-8")
    old.close({"finished": "2026-11-22T08:00:00+00:00"})
    jsonschema.validate(files.read_json(old.path / summary.NAME), SCHEMA)
    assert contents_of(old) == old.read()
    assert "late-write" in (old.path / "index.html").read_text("utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    long, aborted = samples.trial("long", samples.long(2000)), samples.trial("aborted", error="worker 2 broke")
    records = samples.trial(), hostile.trial(), long, aborted
    run = samples.run(tmp_path / "runs" / "r", *records, seed=7, command=["pytest", "suites/"])
    run.save_not_run([NotRun("redis", "redis", "isolate-leader-drop", "redis has no leader")])
    run.close({"exit status": 1})
    return run


def test_a_summary_comes_back_as_it_was_written_and_every_key_of_it_is_described(run: Run) -> None:
    made = summary.load(run.path)
    assert (contents_of(run), made.about, made.failed) == (run.read(), {"exit status": 1}, True)
    data = files.read_json(run.path / summary.NAME)
    jsonschema.validate(data, SCHEMA, cls=jsonschema.Draft202012Validator)
    jsonschema.validate(data, described(SCHEMA))
    assert data["lanes"][0]["measures"]["cycles"], "the sample has faults"


@pytest.mark.parametrize("way", ["run", "cells/0/word", "cells/0/page", "lanes/0/measures/seconds", "words/upheld"])
def test_the_schema_and_the_reader_refuse_the_same_damage(run: Run, way: str) -> None:
    keys = tuple(int(key) if key.isdigit() else key for key in way.split("/"))
    broken = mutated(files.read_json(run.path / summary.NAME), keys, ["x"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)
    (run.path / summary.NAME).write_text(json.dumps(broken))
    with pytest.raises(files.BadFile, match=r"summary\.json: damaged"):
        summary.load(run.path)


def test_the_schema_takes_refuses_and_describes_what_was_published(tmp_path: Path) -> None:
    whole = json.loads((RUNS["3"] / summary.NAME).read_text("utf-8"))
    file = tmp_path / summary.NAME
    file.write_text(json.dumps({**whole, "cells": whole["cells"][:1], "lanes": whole["lanes"][:1]}))
    now, then = (jsonschema.Draft202012Validator(schema) for schema in (SCHEMA, PUBLISHED))
    taken = 0
    for kind, text in some(file, 400):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            continue
        assert now.is_valid(data) == then.is_valid(data), kind
        taken += now.is_valid(data)
    assert taken > 40

    def described(schema: dict[str, Any]) -> set[tuple[str, str]]:
        fields = ((of, made.get("properties", {})) for of, made in (("", schema), *schema["$defs"].items()))
        return {(of, name) for of, each in fields for name in each if each[name].get("description")}

    assert described(PUBLISHED) <= described(SCHEMA)


@pytest.mark.parametrize("name", ["run.json", "summary.json", "trials/long/trial.json", "trials/long/verdicts.json"])
def test_a_future_format_gets_one_clear_line(run: Run, name: str) -> None:
    path = run.path / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 4}))
    newer = "format 4, this version reads 1 to 3; a newer version wrote it"
    assert message_of(files.BadFile, files.read_json, path) == f"{path}: {newer}"
    assert f"{name}: {newer}" in run.read().problems or "trials" not in name


@pytest.mark.parametrize("run", ["default", "nightly", "upgrade"])
def test_a_stored_run_is_judged_as_it_was(run: str, tmp_path: Path) -> None:
    answers = kept(FOLDER / f"{run}.tar.xz", tmp_path)
    assert len(answers) > 50
    different = [
        f"{file} {name}: was {was.get(name)}, is {now.get(name)}"
        for file, was in answers.items()
        for now in [judged(load(tmp_path / file))]
        for name in {**was, **now}
        if was.get(name) != now.get(name)
    ]
    assert different == []
