"""DFTracer's traces, .pfw and .pfw.gz: a JSON object on each line, times in microseconds.

Files are named by hashes, which lines of their own explain; earlier versions have
the name in the call.  Functions of the program become spans of layer user, and
enclose what happened during them in the same thread.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyio_trace.enums import Layer, OpClass
from pyio_trace.log.calls_of_libc import CALLS, plain
from pyio_trace.log.foreign_log import MOST, Allowance, ForeignLog, Format, Rows, cut_short, damaged
from pyio_trace.units import counted

_GZIP = b"\x1f\x8b"
#: Categories of calls -> layer; others are functions of the program.
_LAYERS = {"POSIX": Layer.POSIX, "STDIO": Layer.STDIO}
#: DFTracer's own events: how it started, what a hash stands for.
_OWN = "dftracer"
#: Units of times -> ns.
_UNITS = {"US": 1_000, "NS": 1, "MS": 1_000_000, "SEC": 10**9}
#: Calls whose result is in items of args.size.
_ITEMS = ("fread", "fwrite")
_LONGEST = 1 << 20
#: Lines are much alike.
_UNPACKED_A_BYTE = 256
_PIECE = 1 << 18
_BLOCK = 1 << 13
_FIELDS = (
    "time", "duration", "process", "tid", "layer", "op_class", "op", "path", "offset", "requested", "moved", "errno",
    "detail",
)  # fmt: skip


class _Reading:
    """The files of a run while they are read."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, Rows(path)
        self.names: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        self.processes: list[dict[str, Any]] = []
        self.start, self.last, self.unit = MOST, 0, _UNITS["US"]
        self.torn = self.others = 0
        self._of: dict[tuple[str, int], int] = {}
        self._block: list[tuple[int, ...]] = []

    def line(self, line: bytes) -> None:
        line = line.strip().rstrip(b",")
        if not line or line in (b"[", b"]"):
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self.torn += len(line)
            return
        if not isinstance(event, dict):
            self.torn += len(line)
            return
        given = event.get("args")
        args: dict[str, Any] = given if isinstance(given, dict) else {}
        if "ts" not in event:
            self._explained(event, args)
        elif event.get("cat") == _OWN:
            self._began(event, args)
        else:
            self._call(event, args)

    def _explained(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        """A line that says what a hash stands for, or in which unit times are."""
        kind, name, value = event.get("name"), args.get("name"), args.get("value")
        if not isinstance(name, str):
            return
        if kind in ("FH", "SH"):
            self.names[str(value)] = _text(name)
        elif kind == "HH":
            self.hosts[str(value)] = _text(name)
        elif kind == "CM" and name == "time_metric":
            self.unit = _UNITS.get(str(value), self.unit)
        else:
            return

    def _began(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        """DFTracer's event at the start or end of a process."""
        row = self.processes[self._process(event, args)]
        moment = _number(event.get("ts")) * self.unit
        self._widen(moment, moment)
        if event.get("name") == "start":
            row |= {"begin": moment, "start": "top"}
            row["ppid"] = _number(args.get("ppid")) & 0x7FFFFFFF
            row["of"] = [str(args.get(name)) for name in ("exec_hash", "cmd_hash", "cwd")]
        elif event.get("name") == "end":
            row |= {"end": moment, "end_by": "itself"}

    def _process(self, event: dict[str, Any], args: dict[str, Any]) -> int:
        host, pid = str(args.get("hhash", "")), _number(event.get("pid")) & 0x7FFFFFFF
        at = self._of.setdefault((host, pid), len(self.processes))
        if at == len(self.processes):
            self.processes.append({"pid": pid, "of_host": host, "of": []})
        return at

    def _widen(self, begin: int, end: int) -> None:
        self.start, self.last = min(self.start, begin), max(self.last, end)

    def _call(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        name, layer = event.get("name"), _LAYERS.get(str(event.get("cat")), Layer.USER)
        if event.get("ph") not in (1, "X") or not isinstance(name, str):
            self.others += 1  # counters of the system, marks
            return
        time, duration = (min(_number(event.get(one)) * self.unit, MOST >> 1) for one in ("ts", "dur"))
        self._widen(time, time + duration)
        klass = OpClass.SPAN
        if layer != Layer.USER:
            name = plain(name)
            klass = CALLS[name][1] if name in CALLS else OpClass.META
        result, moves = args.get("ret"), klass in (OpClass.READ, OpClass.WRITE)
        moved = requested = offset = -1
        if moves:
            size = max(_number(args.get("size"), 1), 1) if name in _ITEMS else 1
            moved = min(_number(result) * size, MOST)
            requested = min(_number(args.get("count", args.get("size" if size == 1 else "count")), -1) * size, MOST)
            offset = _number(args.get("offset"), -1) if "offset" in args else -1
        failed = isinstance(result, int) and result < 0
        text = self.rows.text
        second = args.get("newpath_hash", args.get("newpath"))
        self._block.append((
            time, duration, self._process(event, args), _number(event.get("tid")) & 0x7FFFFFFF, layer, klass,
            text("op", _text(name)[:200]), self._path(args), offset, max(requested, -1), moved, -1 if failed else 0,
            -1 if second is None else text("detail", json.dumps({"to": str(second)})),
        ))  # fmt: skip
        if len(self._block) == _BLOCK:
            self.flush()

    def _path(self, args: dict[str, Any]) -> int:
        """The number of the name or hash of a file; -1: none."""
        given = args.get("fname", args.get("fhash"))
        return self.rows.text("path", _text(str(given))) if given not in (None, "", 0) else -1

    def flush(self) -> None:
        """Turns what was collected into rows."""
        if self._block:
            columns = dict(zip(_FIELDS, zip(*self._block, strict=True), strict=True))
            self.rows.add(len(self._block), **columns)
            self._block = []

    def named(self) -> None:
        """Puts names in place of hashes, wherever in the files they were explained."""
        self.rows.rename("path", lambda text: self.names.get(text, text))
        self.rows.rename("detail", self._detail)

    def _detail(self, text: str) -> str:
        to = json.loads(text)["to"]
        return json.dumps({"to": self.names.get(to, to)}, ensure_ascii=False)

    def table(self) -> list[dict[str, Any]]:
        """The processes, with names in place of hashes."""
        for row in self.processes:
            row["host"] = self.hosts.get(row.pop("of_host"), "")
            row.setdefault("begin", self.start)
            row.setdefault("end", None)
            of = row.pop("of")
            program, command, cwd = (self.names.get(one, "") for one in of) if of else ("", "", "")
            argv = [word for word in command.split(";") if word]
            row |= {"argv": argv, "executable": argv[0] if argv else program, "cwd": cwd or None}
        return self.processes


def _number(value: Any, missing: int = 0) -> int:
    """A number that is not negative; what is none, or too large, is not believed."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and 0 <= value < MOST:
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool)
    return min(max(value, 0), MOST) if fits else missing


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked.  Raises LogError."""
    allowance = Allowance(path, path.stat().st_size, _UNPACKED_A_BYTE)
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        if not packed:
            while piece := raw.read(_PIECE):
                yield piece
            return
        with gzip.GzipFile(fileobj=raw) as file:
            try:
                while piece := file.read1(_PIECE):
                    allowance.take(len(piece))
                    yield piece
            except EOFError:
                raise cut_short(path, "is cut off") from None
            except (zlib.error, gzip.BadGzipFile):
                raise damaged(path, "is damaged") from None


def _lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for piece in _pieces(path):
        *whole, rest = (rest + piece).split(b"\n")
        yield from filter(None, whole)
        if len(rest) > _LONGEST:
            raise damaged(path, "has a line that is too long")
    yield rest


def _read(paths: Sequence[Path]) -> ForeignLog:
    reading = _Reading(paths[0])
    for path in paths:
        for line in _lines(path):
            reading.line(line)
    reading.flush()
    if reading.start == MOST:
        raise damaged(paths[0], "it has no call")
    reading.named()
    processes = reading.table()
    ends = [one["end"] for one in processes]
    not_seen = [
        "no lines of Python; files that it was not told to watch; I/O through mapped files",
        "why a call failed",
    ]
    if reading.others:
        not_seen.append(f"{counted(reading.others, 'event')} that are no calls")
    return ForeignLog(
        tool="DFTracer", start=reading.start, end=None if None in ends else max(reading.last, *ends), rows=reading.rows,
        processes=processes, torn=reading.torn, not_seen=not_seen, host=next(iter(reading.hosts.values()), ""),
    )  # fmt: skip


def _begins_so(name: str, head: bytes) -> bool:
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, 4096)
        except zlib.error:
            return False
    lines = [line for line in head.split(b"\n") if line.strip() not in (b"", b"[")]
    first = lines[0].strip() if lines else b""
    marks = (b'"cat"', b'"pid"', b'"tid"', b'"name"')
    return first.startswith(b"{") and all(mark in first for mark in marks) and (b'"hhash"' in first or b'"ts"' in first)


FORMAT = Format(_begins_so, _read, lambda paths: [list(paths)])
