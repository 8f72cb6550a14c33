"""A writer of live logs in plain Python, for tests and for benchmarks/generate_log.py.

Writes what csrc/core writes, through the same dtypes the reader uses, so that
the reader can be tried on any log one can think of without capturing one.  A
log is built in memory and written out by save().
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pyio_trace.log import layout

_CORE = Path(__file__).resolve().parents[2] / "csrc" / "core"
_OP = re.compile(r"^OP(?:_WITH)?\((\w+),", re.MULTILINE)
#: Prints the core's table of operations: what its traits are is worked out in C only.
_PRINT_TABLE = """
#include "format/operations.h"
#include <stdio.h>
int main(void) { return fwrite(pt_operation_table, sizeof pt_operation_table, 1, stdout) != 1; }
"""
HOST, BOOT = "testhost", "00000000-0000-0000-0000-000000000000"


def _operations() -> tuple[dict[str, int], np.ndarray]:
    names = _OP.findall((_CORE / "format" / "operations.def").read_text())
    numbers = {key: number for number, key in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "table"
        words = [shutil.which("cc") or "gcc", "-std=gnu11", f"-I{_CORE}", "-o", str(program), "-xc", "-"]
        words.append(str(_CORE / "format" / "operations.c"))
        subprocess.run(words, input=_PRINT_TABLE, text=True, check=True)
        table = subprocess.run([str(program)], stdout=subprocess.PIPE, check=True).stdout
    return numbers, np.frombuffer(table, layout.OP_ROW)


#: C name of an operation ("PREAD") -> its number; and the operation table.
OP, OP_ROWS = _operations()


@dataclass
class Thread:
    """Where one thread's records go; made by LogWriter.thread."""

    writer: LogWriter
    process: int
    tid: int
    chunk_size: int
    at: int = 0
    end: int = 0
    sequence: int = 0

    def record(
        self,
        op: str | int,
        *,
        begin: int,
        duration: int = 10,
        state: int = layout.DONE,
        flags: int = 0,
        errno: int | None = None,
        link: int = 0,
        **fields: int,
    ) -> int:
        """Adds a record; fields: desc, stack, parent, aux, offset, size, result. Returns its id."""
        if self.at + layout.RECORD.itemsize > self.end:
            start = self.writer.chunk(layout.CHUNK_OPS, self.chunk_size, self.process, self.tid, self.sequence, begin)
            self.at, self.end, self.sequence = start + layout.OPS_START, start + self.chunk_size, self.sequence + 1
        row = np.zeros((), layout.RECORD)
        row["op"] = OP[op] if isinstance(op, str) else op
        row["flags"] = state | flags | link << layout.LINK_SHIFT | (layout.FAILED if errno is not None else 0)
        row["begin"] = begin
        row["duration_lo"], row["duration_hi"] = duration & 0xFFFFFFFF, duration >> 32
        row["size"] = row["result"] = layout.NO_BYTES
        row["offset"] = -1
        for name, value in fields.items():
            row[name] = value & 0xFFFFFFFF if name in ("size", "result", "aux") else value
        if errno is not None:
            row["result"] = errno
        identity = self.at >> layout.ID_SHIFT
        self.writer.put(self.at, row)
        self.at += layout.RECORD.itemsize
        return identity

    def skip(self) -> None:
        """Leaves a slot empty, as a signal handler's claim would."""
        self.at += layout.RECORD.itemsize


class LogWriter:
    """One live log in the making."""

    def __init__(
        self,
        *,
        ticks: int = 1_000,
        mono: int = 1_000,
        real: int = 1_700_000_000_000_000_000,
        tick_kind: int = layout.TICKS_MONOTONIC_NS,
        rate: float = 1.0,
        host: str = HOST,
        boot_id: str = BOOT,
    ) -> None:
        self.data = bytearray(layout.FIRST_CHUNK)
        self.header = np.zeros((), layout.HEADER)
        self.header["magic"] = np.void(layout.MAGIC)
        self.header["version"] = layout.VERSION
        self.header["first_chunk"] = layout.FIRST_CHUNK
        self.header["budget"] = 1 << 40
        self.header["run_id"] = 0x1234
        self.header["owner_pid"] = 100
        self.header["tick_kind"] = tick_kind
        self.header["first"] = (ticks, mono, real)
        self.header["host"], self.header["boot_id"] = host.encode(), boot_id.encode()
        self.rate = rate
        self.put(layout.OPTABLE_OFFSET, OP_ROWS)
        self._strings: dict[tuple[bytes, int], int] = {}
        self._heap_at = self._heap_end = 0
        self._heap_process = 0
        self._samples_at = self._samples_end = 0
        self._system_at = self._system_end = 0

    # ---- chunks

    def put(self, at: int, what: np.ndarray | np.void | bytes) -> None:
        """Writes bytes in place."""
        raw = what if isinstance(what, bytes) else what.tobytes()
        self.data[at : at + len(raw)] = raw

    def chunk(self, kind: int, size: int, process: int = 0, tid: int = 0, sequence: int = 0, ticks: int = 0) -> int:
        """Claims a chunk; returns its offset."""
        start = len(self.data)
        self.data += bytes(size)
        head = np.zeros((), layout.CHUNK)
        head["magic"], head["offset"], head["size"], head["kind"] = layout.CHUNK_MAGIC, start, size, kind
        head["process"], head["tid"], head["sequence"] = process, tid, sequence
        head["clock"] = self.moment(ticks)
        self.put(start, head)
        return start

    def gap(self, pages: int = 1) -> int:
        """Pages that were claimed and never got a chunk header."""
        start = len(self.data)
        self.data += bytes(pages * layout.PAGE)
        return start

    def moment(self, ticks: int) -> tuple[int, int, int]:
        """The three clocks at some ticks."""
        first = self.header["first"]
        since = round((max(ticks, int(first["ticks"])) - int(first["ticks"])) * self.rate)
        return max(ticks, int(first["ticks"])), int(first["mono"]) + since, int(first["real"]) + since

    # ---- processes and threads

    def process(self, pid: int, *, argv: Sequence[str] = (), followed: int = 1, **fields: Any) -> int:
        """A process entry; returns its id."""
        start = self.chunk(layout.CHUNK_PROCESS, layout.PROCESS_CHUNK, ticks=int(fields.get("begin", 0)))
        entry = np.zeros((), layout.PROCESS_ENTRY)
        entry["chunk"] = np.frombuffer(bytes(self.data[start : start + 80]), layout.CHUNK)[0]
        entry["pid"], entry["followed"] = pid, followed
        entry["previous"] = self.header["processes"]
        raw = b"".join(argument.encode() + b"\0" for argument in argv)[:2048]
        entry["argv_length"], entry["argv"] = len(raw), np.void(raw.ljust(2048, b"\0"))
        for name, value in fields.items():
            entry[name] = value
        identity = start >> layout.ID_SHIFT
        entry["chunk"]["process"] = identity
        self.put(start, entry)
        self.header["processes"] = identity
        return identity

    def count(self, process: int, op: str, count: int, moved: int = 0, ticks: int = 0, errors: int = 0) -> None:
        """Counters of an operation in a process (0: the header's overflow)."""
        base = (process << layout.ID_SHIFT) + layout.COUNTERS_OFFSET if process else layout.OVERFLOW_OFFSET
        self.put(base + OP[op] * layout.COUNTER.itemsize, np.array((count, moved, ticks, errors), layout.COUNTER))

    def thread(self, process: int, tid: int, chunk_size: int = layout.PAGE) -> Thread:
        """A thread that writes records."""
        return Thread(self, process, tid, chunk_size)

    # ---- samples

    def sample(
        self,
        process: int,
        tid: int,
        state: str = "running",
        *,
        begin: int,
        ticks: int,
        cpu: int | None = None,
        delay: int = 0,
        stack: int = 0,
        samples: int = 1,
        flags: int = 0,
    ) -> None:
        """A run of equal samples of a thread; cpu: all of it (a tick of 1 ns) if it runs, else 0."""
        if self._samples_at + layout.SAMPLE.itemsize > self._samples_end:
            start = self.chunk(layout.CHUNK_SAMPLES, layout.PAGE, ticks=begin)
            self._samples_at, self._samples_end = start + layout.HEAP_START, start + layout.PAGE
        if cpu is None:
            cpu = ticks if state == "running" else 0
        number = layout.SAMPLE_STATES.index(state)
        row = (begin, ticks, cpu, delay, process, tid, stack, samples, number, flags)
        self.put(self._samples_at, np.array(row, layout.SAMPLE))
        self._samples_at += layout.SAMPLE.itemsize

    def system(
        self, kind: str, *, begin: int, ticks: int, name: str = "", pid: int = 0, device: int = 0, **values: int
    ) -> None:
        """A row of the machine; values: by name, the others are not known."""
        if self._system_at + layout.SYSTEM.itemsize > self._system_end:
            start = self.chunk(layout.CHUNK_SYSTEM, layout.PAGE, ticks=begin)
            self._system_at, self._system_end = start + layout.HEAP_START, start + layout.PAGE
        number = layout.SYSTEM_KINDS.index(kind)
        known = [values.pop(one, layout.SYSTEM_UNKNOWN) for one in layout.SYSTEM_COLUMNS[kind]]
        assert not values, values
        known += [layout.SYSTEM_UNKNOWN] * (layout.SYSTEM_VALUES - len(known))
        self.put(self._system_at, np.array((begin, ticks, number, pid, device, name.encode(), known), layout.SYSTEM))
        self._system_at += layout.SYSTEM.itemsize

    # ---- the heap

    def allocate(self, size: int) -> int:
        """Room in a heap chunk; returns its offset."""
        size = -(-size // 16) * 16
        if self._heap_at + size > self._heap_end:
            length = max(1 << 16, -(-(size + layout.HEAP_START) // layout.PAGE) * layout.PAGE)
            start = self.chunk(layout.CHUNK_HEAP, length)
            self._heap_at, self._heap_end = start + layout.HEAP_START, start + length
        at = self._heap_at
        self._heap_at += size
        return at

    def string(self, text: str | bytes, base: int = 0) -> int:
        """An interned string; returns its id."""
        raw = text.encode() if isinstance(text, str) else text
        if (raw, base) not in self._strings:
            size = layout.STRING.itemsize + len(raw) + 1
            at = self.allocate(size)
            self.put(at, np.array(((layout.HEAP_STRING, size), base, len(raw)), layout.STRING).tobytes() + raw)
            self._strings[raw, base] = at >> layout.ID_SHIFT
        return self._strings[raw, base]

    def code(self, file: str, function: str, first_line: int = 1, line_table: int = 0) -> int:
        """A code object; returns its id."""
        file_id, function_id = self.string(file), self.string(function)
        at = self.allocate(layout.CODE.itemsize)
        head = (layout.HEAP_CODE, layout.CODE.itemsize)
        self.put(at, np.array((head, file_id, function_id, first_line, line_table), layout.CODE))
        return at >> layout.ID_SHIFT

    def sent(self, process: int, code: int, previous: int = 0) -> int:
        """Code that a process has sent to others, as the newest of its list; returns the entry's id."""
        at = self.allocate(16)
        self.put(at, np.array((layout.HEAP_LOADED, 16, previous, code), "<u4"))
        return self._newest(process, "sent", at)

    def package(self, process: int, name: str, ticks: int, previous: int = 0) -> int:
        """A package that a process has imported, as the newest of its list; returns the entry's id."""
        at = self.allocate(layout.PACKAGE.itemsize)
        head = (layout.HEAP_IMPORT, layout.PACKAGE.itemsize)
        self.put(at, np.array((head, previous, self.string(name), ticks), layout.PACKAGE))
        return self._newest(process, "packages", at)

    def _newest(self, process: int, name: str, at: int) -> int:
        """Makes an object the first one of a process's list; returns its id."""
        field = layout.PROCESS_ENTRY.fields[name][1]  # type: ignore[index]
        self.put((process << layout.ID_SHIFT) + field, np.array(at >> layout.ID_SHIFT, "<u4"))
        return at >> layout.ID_SHIFT

    def stack(self, *frames: tuple[int, int], truncated: int = 0, submitters: tuple[int, ...] = ()) -> int:
        """A stack of (code id, line), innermost first; submitters: ids of stacks; returns its id."""
        every = [*frames, *((submitter, 0) for submitter in submitters)]
        size = layout.STACK.itemsize + len(every) * layout.FRAME.itemsize
        at = self.allocate(size)
        head = np.array(((layout.HEAP_STACK, size), len(frames), truncated, len(submitters)), layout.STACK)
        self.put(at, head.tobytes() + np.array(every, layout.FRAME).tobytes())
        return at >> layout.ID_SHIFT

    def desc(self, fd: int, path: str | bytes | int, **fields: int) -> int:
        """A descriptor; path: a string id, or text to intern; root: its own unless given. Returns its id."""
        at = self.allocate(layout.DESC.itemsize)
        identity = at >> layout.ID_SHIFT
        row = np.zeros((), layout.DESC)
        row["heap"] = (layout.HEAP_DESC, layout.DESC.itemsize)
        row["fd"], row["root"] = fd, identity
        row["path"] = path if isinstance(path, int) else self.string(path)
        for name, value in fields.items():
            row[name] = value
        self.put(at, row)
        return identity

    # ---- out

    def bytes(self) -> bytes:
        """The log as it stands."""
        if int(self.header["next"]) == 0 or int(self.header["next"]) < len(self.data):
            self.header["next"] = len(self.data)
        self.put(0, self.header)
        return bytes(self.data)

    def save(self, path: Path) -> Path:
        """Writes the log to a file."""
        path.write_bytes(self.bytes())
        return path
