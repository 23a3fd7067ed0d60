"""`python -m results schema`: the JSON Schema of summary.json, made from the types that it is read into."""

import inspect
import json
import re
from typing import Any, Final

import msgspec

from checkers.claims import Verdict
from results.storage.files import FORMAT
from results.storage.summary import Summary
from results.text import in_a_line

_LATER: Final = ("stage", "p10", "boundaries")  # keys that were added within the format; all others are required
_FIELDS: Final = re.compile(r"^(\w+)  +(.+(?:\n +.+)*)", re.MULTILINE)  # the description of each field in a docstring
_PAGE: Final = {"type": "string", "pattern": r"^trials/[^/]+/index\.html$"}


def main() -> int:
    print(json.dumps(schema(), indent=2))
    return 0


def schema() -> dict[str, Any]:
    """The schema of the format that is written."""
    _, types = msgspec.json.schema_components([Summary], schema_hook=lambda _: _PAGE)
    docs = {name: inspect.cleandoc(made["description"]) for name, made in types.items()}
    for name, made in types.items():
        shared = docs["Cell"] if name == "LaneSummary" else ""
        fields = dict(_FIELDS.findall(shared) + _FIELDS.findall(docs[name]))
        made["description"] = in_a_line(docs[name].partition("\n\n")[0])
        for key, of in made.get("properties", {}).items():
            of.pop("default", None)
            if key in fields:
                of["description"] = in_a_line(fields[key])
        if "required" in made:
            made["required"] = [key for key in made["properties"] if key not in _LATER]
    types["Verdict"]["enum"] = list(Verdict)
    file = types.pop("Summary")
    file["properties"]["words"] |= {"propertyNames": {"$ref": "#/$defs/Verdict"}, "required": list(Verdict)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:fencepost:summary:{FORMAT}",
        **file,
        "title": f"summary.json of a fencepost run, format {FORMAT}",
        "properties": {"format": {"const": FORMAT}, **file["properties"]},
        "required": ["format", *file["required"]],
        "$defs": types,
    }
