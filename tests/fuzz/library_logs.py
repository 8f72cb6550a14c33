"""Logs of programs that use libraries: calls of all of them, with details, sizes, times and lines of any value.

live_mutations.py damages the structures of a log; here these are sound, and what
they say is not.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyio_trace.join.pack.packer import pack
from pyio_trace.log import layout
from tests.fuzz.seeds import NASTY
from tests.support.logwriter import LogWriter, Thread

Mutation = tuple[int, int, int, int]

#: Span of an application, a user or a library -> names that a reducer or a rule knows.
_SPANS = {
    "SPAN_APP_READ": (
        "Dataset.__getitem__", "Dataset.read_direct", "Group.__getitem__", "Dataset.__array__", "numpy.load",
        "numpy.fromfile", "numpy.loadtxt", "NpzFile.__getitem__", "pandas.read_csv", "pandas.read_parquet",
        "TextFileReader.__next__", "pyarrow.parquet.read_table", "ParquetFile.read", "pyarrow.parquet.ParquetFile",
        "Dataset.to_table", "Fragment.to_table", "torch.load", "pickle.load", "json.load", "Cursor.fetchall",
        "zarr.json", "File.__init__", "pandas.HDFStore", "gzip.read", "DataLoader.fetch",
    ),
    "SPAN_APP_WRITE": (
        "Dataset.__setitem__", "Dataset.write_direct", "Group.create_dataset", "Dataset.resize", "File.flush",
        "Dataset.flush", "File.close", "DataFrame.to_csv", "torch.save", "Connection.commit", "Cursor.execute",
        "Connection.__exit__", "Cursor.executemany", "numpy.savetxt", "json.dump", "sqlite3.connect", "shelve.sync",
        "torch.distributed.checkpoint.save",
    ),
    "SPAN_APP_WAIT": ("DataLoader.__next__", "Queue.get", "Client.gather", "Future.result", "ray.get"),
    "SPAN_APP_CONTAINER": (
        "task", "ray.task", "ray.actor_task", "pool.task", "thread.task", "DataLoader.fetch", "test", "\x1b[31m\n::x",
    ),
    "SPAN_APP_STARTING": ("DataLoader.__iter__", "Process.start"),
    "SPAN_USER": ("epoch", "step", "::set-output name=a::b", "</code><script>"),
    "SPAN_HDF5": ("H5Dread", "H5Dwrite"),
}  # fmt: skip
_CALLS = (
    "READ", "WRITE", "PREAD", "PWRITE", "LSEEK", "FREAD", "FWRITE", "FSEEK", "A_BUF_READ", "A_RAW_READ", "A_TEXT_NEXT",
    "A_BUF_WRITE", "A_TEXT_WRITE", "A_BUF_FLUSH", "FSYNC", "FDATASYNC", "FLOCK", "FSTAT", "MMAP", "A_MMAP_READ",
    "FTRUNCATE", "FADVISE", "SENDFILE", "COPY_FILE_RANGE_AT", "H5D_READ", "H5D_WRITE", "H5F_OPEN",
)  # fmt: skip
_NAMED = ("OPEN", "STAT", "LSTAT", "ACCESS", "UNLINK", "MKDIR", "OPENDIR", "SCANDIR", "RENAME", "READLINK", "CREAT")
_KEYS = (
    "dataset", "selection", "shape", "sizes", "prefix", "loader", "epoch", "dtype", "common_sizes", "worker", "to",
    "name", "function", "chunks", "workers", "span_ns", "size", "sequential", "placed", "output", "ordinal",
    "num_workers", "mmap", "longest_ns", "layout", "in_flight", "given", "filters", "filtered", "file", "driver",
    "consecutive", "calls", "batch", "axis", "statement", "rows", "elements", "key", "task", "submitted", "raised",
    "names", "usecols", "groups", "nrows", "cache", "columns", "row_groups", "child", "persistent_workers",
    "batch_size", "samples", "mmap_mode", "rdcc_nbytes", "module", "failed", "shuffle", "prefetch_factor",
)  # fmt: skip
_NUMBERS = (0, 1, 2, 7, 8, 100, 4096, 10**6, 2**31, 2**47, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**400, -1, -(2**63))
_TEXTS = (
    "", "x", "/d", "0:10", "0:1", ":", "::2", "...", "9" * 5000 + ":", "-5:5", "float64", "int8", "f99999999999999999",
    "gzip(4)", "shuffle", "sec2", "contiguous", "chunked", "SELECT a FROM b", "\x1b]0;t\x07", "\ud800", "</code>",
    "::x", "'; DROP TABLE operations --", "*" * 40, "a" * 100_000, "train.py:3:f",
)  # fmt: skip
_USUAL = (0, 100, 5_000, 700_000)
_WHOLE = (0, 1, 10, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, 1 << 40, (1 << 62) - 1, (1 << 63) - 1, -1, -(1 << 63))


class Mutator:
    """Makes such logs: live ones, or packed ones in a folder."""

    def __init__(self, packed: Path | None = None) -> None:
        self._packed = packed

    def apply(self, mutations: list[Mutation]) -> bytes:
        """A log; the same mutations give the same one."""
        data = _Log(random.Random(repr(mutations))).written()
        if self._packed is None:
            return data
        live, log = self._packed / "unpacked", self._packed / "mutated"
        live.write_bytes(data)
        log.unlink(missing_ok=True)
        pack(live, log)
        return log.read_bytes()


class _Log:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._writer = LogWriter()
        pick = self._pick
        names = [name.decode("utf-8", "replace").replace("\x00", "") for name in NASTY]
        self._paths = [
            *names,
            *(f"/d/{number}.h5" for number in range(3)),
            "/d/" + "a*" * 30,
            "/d/" + "a" * 40,
            "/x::y",
        ]
        code = [self._writer.code(path, name) for path, name in (("/s/train.py", "f"), (names[0], "\x1b[1m"),
                ("/s/::error::x.py", "g"))]  # fmt: skip
        self._stacks = [0, *(self._writer.stack((pick(code), line)) for line in (0, 1, 2, 3, 65_535))]
        #: Few names and details, so that calls repeat, as rules want them to.
        self._details = [self._writer.string(self._detail()) for _ in range(chance.choice((1, 3, 40)))]
        self._wild = chance.random() < 0.5

    def _pick(self, values: Any) -> Any:
        return self._chance.choice(values)

    def written(self) -> bytes:
        """The log's bytes."""
        writer, chance = self._writer, self._chance
        processes: list[int] = []
        for number in range(chance.choice((1, 2, 5))):
            parent = self._pick([0, *processes])
            end = self._pick((900_000_000, 0, 10))
            processes.append(
                writer.process(
                    100 + number, argv=["python", self._pick(self._paths)], parent=parent, ppid=self._pick((1, 100)),
                    begin=self._pick((1_000, 5_000, 1 << 62 if self._wild else 9_000)), end=end, stack_state=1,
                    start=self._pick((layout.START_FORK, layout.START_SPAWN)), cwd=writer.string("/s"),
                )
            )  # fmt: skip
        for number in range(chance.choice((1, 4))):
            thread = writer.thread(self._pick(processes), 100 + number, 1 << 16)
            self._calls(thread, chance.choice((3, 60, 600)))
        return writer.bytes()

    def _calls(self, thread: Thread, count: int) -> None:
        chance, writer = self._chance, self._writer
        kinds = chance.sample(sorted(_SPANS), 2), chance.sample(_CALLS, 3), chance.sample(_NAMED, 2)
        names = [writer.string(self._pick(_SPANS[kind])) for kind in kinds[0] for _ in range(2)]
        paths = [writer.string(self._pick(self._paths)) for _ in range(chance.choice((1, 3, 12)))]
        descs = [writer.desc(3 + n, path, dev=1, ino=n, kind=1) for n, path in enumerate(paths)]
        stacks = chance.sample(self._stacks, 2)
        begin, parent = 5_000, 0
        for _ in range(count):
            begin += self._pick((10, 1_000, 100_000))
            took = self._pick(_WHOLE) & ((1 << 48) - 1) if self._wild and chance.random() < 0.1 else self._pick(_USUAL)
            at = {"begin": begin, "duration": took, "parent": parent, "link": 1, "stack": self._pick(stacks)}
            size = self._pick(_WHOLE) if self._wild else self._pick((1, 100, 4096, 1 << 20))
            kind = chance.randrange(4)
            if kind == 0:
                span = self._pick(kinds[0])
                offset = self._pick(self._details)
                parent = thread.record(span, aux=self._pick(names), offset=offset, desc=self._pick([0, *descs]), **at)
            elif kind == 1:
                name = self._pick(kinds[2])
                desc = self._pick(descs)
                thread.record(name, desc=self._pick(paths), offset=desc, aux=self._pick((0, os.O_CREAT, os.O_SYNC)),
                              errno=self._pick((None, None, 2)), **at)  # fmt: skip
            else:
                thread.record(self._pick(kinds[1]), desc=self._pick(descs), aux=3, size=size, result=size,
                              offset=self._pick(_WHOLE) if self._wild else chance.randrange(1 << 20), **at)  # fmt: skip
            if chance.random() < 0.2:
                parent = 0

    def _detail(self) -> str:
        """JSON, nearly always an object with keys that somebody looks for."""
        special: list[Callable[[], str]] = [
            lambda: "[" * self._pick((50, 300, 900, 985, 5_000)), lambda: "", lambda: "\x1b{", lambda: "null",
            lambda: '{"selection": ' + "[" * (depth := self._pick((100, 400, 900, 970))) + "]" * depth + "}",
        ]  # fmt: skip
        if self._chance.random() < 0.1:
            return str(self._pick(special)())
        keys = self._chance.sample(_KEYS, self._chance.randrange(1, 20))
        likely = {
            "dataset": "/d", "shape": [1000, 50], "chunks": [10, 50], "selection": ["0:10", ":"], "dtype": "float64",
            "loader": "l", "epoch": 0, "batch": self._chance.randrange(5), "worker": 0, "filters": ["gzip(4)"],
        }  # fmt: skip
        found = likely if self._chance.random() < 0.7 else {}
        found |= {key: self._value(3) for key in keys if key not in found or self._chance.random() < 0.3}
        return json.dumps(found)

    def _value(self, depth: int) -> Any:
        kind = self._chance.randrange(9 if depth else 7)
        if kind < 2:
            return self._pick(_NUMBERS)
        if kind < 5:
            return self._pick(_TEXTS)
        if kind < 7:
            return self._pick((None, True, False, 1.5, 1e300, float("nan"), float("-inf"), -0.0))
        if kind == 7:
            return [self._value(depth - 1) for _ in range(self._pick((0, 1, 2, 3, 40)))]
        return {str(self._pick((*_TEXTS, *_NUMBERS[:9]))): self._value(depth - 1) for _ in range(self._pick((0, 1, 3)))}
