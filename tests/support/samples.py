"""The samples of a live log, from its bytes alone: what the sampler has written, whatever the reading half says."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pyio_trace.log import layout


@dataclass(frozen=True)
class Sample:
    """A run of equal samples.  frames: (file's name, line, function), innermost first; times in ns."""

    pid: int
    tid: int
    state: str
    frames: tuple[tuple[str, int, str], ...]
    begin: float
    duration: float
    cpu: int
    samples: int
    flags: int

    @property
    def functions(self) -> list[str]:
        """Of its frames."""
        return [function for _, _, function in self.frames]


class Live:
    """A live log as bytes."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:  # of which most may be a hole: where the root is another, nobody cuts the log
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.header = self._at(0, layout.HEADER)

    def _at(self, offset: int, dtype: np.dtype[np.void]) -> Any:
        return np.frombuffer(self.bytes, dtype, 1, offset)[0]

    def _text(self, identity: int) -> str:
        at = identity << layout.ID_SHIFT
        start = at + layout.STRING.itemsize
        return self.bytes[start : start + int(self._at(at, layout.STRING)["length"])].decode()

    def _frames(self, identity: int) -> tuple[tuple[str, int, str], ...]:
        at = identity << layout.ID_SHIFT
        if not identity:
            return ()
        stack = self._at(at, layout.STACK)
        assert stack["heap"]["kind"] == layout.HEAP_STACK
        frames = np.frombuffer(self.bytes, layout.FRAME, int(stack["count"]), at + layout.STACK.itemsize)
        found = []
        for frame in frames:
            code = self._at(int(frame["code"]) << layout.ID_SHIFT, layout.CODE)
            assert code["heap"]["kind"] == layout.HEAP_CODE
            found.append((Path(self._text(code["file"])).name, int(frame["line"]), self._text(code["function"])))
        return tuple(found)

    def _chunks(self) -> list[tuple[int, Any]]:
        found, at = [], int(self.header["first_chunk"])
        end = min(int(self.header["next"]), len(self.bytes))
        while at + layout.CHUNK.itemsize <= end:
            chunk = self._at(at, layout.CHUNK)
            sound = chunk["magic"] == layout.CHUNK_MAGIC and chunk["offset"] == at
            if sound:
                found.append((at, chunk))
            at += int(chunk["size"]) if sound else layout.PAGE
        return found

    def samples(self) -> list[Sample]:
        """All of them, in the order of the log."""
        chunks, found = self._chunks(), []
        first, last = self.header["first"], chunks[-1][1]["clock"]
        ticks = max(int(last["ticks"]) - int(first["ticks"]), 1)
        ns = float(last["mono"] - first["mono"]) / ticks
        for at, chunk in chunks:
            count = (int(chunk["size"]) - layout.HEAP_START) // layout.SAMPLE.itemsize
            rows = np.frombuffer(self.bytes, layout.SAMPLE, count, at + layout.HEAP_START)
            for row in rows if chunk["kind"] == layout.CHUNK_SAMPLES else ():
                if row["begin"] == 0:
                    break
                entry = self._at(int(row["process"]) << layout.ID_SHIFT, layout.PROCESS_ENTRY)
                found.append(
                    Sample(
                        int(entry["pid"]), int(row["tid"]), layout.SAMPLE_STATES[row["state"]],
                        self._frames(int(row["stack"])), (int(row["begin"]) - int(first["ticks"])) * ns,
                        int(row["ticks"]) * ns, int(row["cpu_ns"]), int(row["samples"]), int(row["flags"]),
                    )
                )  # fmt: skip
        return found
