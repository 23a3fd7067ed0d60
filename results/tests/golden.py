"""Texts that tests compare with: a file each in `golden/`.

`GOLDEN=rewrite .venv/bin/python -m pytest results/tests` writes them anew; what `git diff` shows then is reviewed.
"""

import os
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("golden")


def golden(name: str, text: str) -> str:
    """The stored text of this name, to which `text` must be equal."""
    file = FOLDER / name
    if os.environ.get("GOLDEN") == "rewrite":
        file.write_text(text, "utf-8")
    return file.read_text("utf-8")
