"""Foreign files, written and loaded for tests."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkers.formats.formats import load_with_defaults
from checkers.history.history import History

Event = Mapping[str, Any]


def jsonl(events: Iterable[Event]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


class Word(str):
    """A keyword in EDN; JSON has only strings."""

    __slots__ = ()


def edn_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, Word):
        return f":{value}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{edn_text(k)} {edn_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(edn_text, value)) + "]"
    if isinstance(value, frozenset | set):
        return "#{" + " ".join(map(edn_text, value)) + "}"
    return json.dumps(value, ensure_ascii=False)


def edn(events: Iterable[Event]) -> str:
    return "".join(edn_text({Word(key): _word(key, value) for key, value in event.items()}) + "\n" for event in events)


def text(events: Iterable[Event]) -> str:
    """The events as Jepsen's ``history.txt`` has them."""
    lines = []
    for event in events:
        words = [edn_text(_word(key, event.get(key))) for key in ("process", "type", "f", "value")]
        lines.append("\t".join([*words, str(event["error"])] if "error" in event else words) + "\n")
    return "".join(lines)


def _word(key: str, value: Any) -> Any:
    return Word(value) if key in ("type", "f") or (key == "process" and isinstance(value, str)) else value


def event(process: Any, type_: str, f: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"process": process, "type": type_, "f": f, "value": value, **more}


def told(text: str) -> list[Event]:
    """Events from ``process type f value name=value ...``, split by semicolons. A word that is no JSON is a string."""
    result: list[Event] = []
    for words in (part.split() for part in text.split(";")):
        more = {name: _read(value) for name, _, value in (word.partition("=") for word in words[3:] if "=" in word)}
        plain = [_read(word) for word in words[3:] if "=" not in word]
        result.append(event(_read(words[0]), words[1], words[2], *plain, **more))
    return result


def _read(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


def loaded(folder: Path, content: str | bytes) -> History:
    path = folder / "history"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_with_defaults(path).history


def column(history: History, name: str) -> list[int]:
    return [int(number) for number in history.columns[name]]


def values(history: History, name: str = "value") -> list[Any]:
    """The column's values, "-" for none."""
    return [history.values[place] if place >= 0 else "-" for place in column(history, name)]
