"""A file from elsewhere as bytes and lines, and the error that names one of its lines."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.history.counting import Ints
from checkers.history.foreign_values import shown
from checkers.history.history import BadHistory

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text file in UTF-8; in `data` blanks replace a byte order mark. starts: of each line, and the data's end."""

    path: Path
    data: bytes
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def bad(self, line: int, message: str) -> BadHistory:
        """The error about a line, counted from 0."""
        return BadHistory(f"{self.path}:{line + 1}: {message}")

    def text(self, first: int, end: int) -> str:
        """Lines from `first` up to before `end`."""
        return self.data[self.starts[first] : self.starts[end]].decode()

    def arrow(self, first: int, end: int) -> pa.Array:
        """The same lines as an Arrow array of bytes, ends of lines included."""
        begin, stop = int(self.starts[first]), int(self.starts[end])
        offsets = (self.starts[first : end + 1] - begin).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data).slice(begin, stop - begin)]
        return pa.Array.from_buffers(pa.large_binary(), end - first, buffers)


def opened(path: Path, data: bytes) -> SourceFile:
    """The file with its lines. Raises BadHistory if the bytes are not text."""
    if data.startswith(_BOM):
        data = b"   " + data[len(_BOM) :]
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    last = [len(data)] if not len(ends) or ends[-1] != len(data) else []
    starts = np.concatenate((np.zeros(1, np.int64), ends, np.array(last, np.int64)))
    source = SourceFile(path, data, starts)
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = int(np.searchsorted(starts, error.start, side="right")) - 1
            raise source.bad(line, f"not UTF-8: {shown(repr(data[error.start : error.start + 4]))}") from error
    nul = data.find(b"\0")
    if nul >= 0:
        raise source.bad(int(np.searchsorted(starts, nul, side="right")) - 1, "a NUL byte: this is no text")
    return source
