"""Reads a page as its program does, from the columns and texts in the HTML: what web/src/data.ts must find."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class _Blocks(HTMLParser):
    """The blocks of data of a page, by id, and the rest of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.blocks[self._open] = self.blocks.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = None


class Page:
    """facts: what it says; rows: its operations, as dicts with the names of the columns of the log."""

    def __init__(self, file: Path) -> None:
        self.html = file.read_text("utf-8")
        parser = _Blocks()
        parser.feed(self.html)
        self.tags, self._blocks = parser.tags, parser.blocks
        self.facts: dict[str, Any] = json.loads(self._blocks["facts"])
        self.head: dict[str, Any] = json.loads(self._blocks["timeline"])

    def _inflated(self, name: str) -> bytes:
        return zlib.decompress(base64.b64decode(self._blocks[name]), -zlib.MAX_WBITS)

    def _texts(self, name: str) -> list[Any]:
        return list(json.loads(self._inflated(f"texts-{name}")))

    def flows(self) -> list[tuple[int, int]]:
        """(row, row) of each."""
        count = self.head["flows"]
        ends = [self._column(name, count) if count else [] for name in ("flow-from", "flow-to")]
        return [(one or 0, other or 0) for one, other in zip(*ends, strict=True)]

    def _column(self, name: str, rows: int | None = None) -> list[int | None]:
        head, count = self.head["columns"][name], self.head["rows"] if rows is None else rows
        data = self._inflated(f"column-{name}")
        assert len(data) == count * (head["width"] + head["masked"])
        there = data[:count] if head["masked"] else b"\1" * count
        planes = [data[(head["masked"] + plane) * count :] for plane in range(head["width"])]
        return [
            sum(plane[row] << 8 * at for at, plane in enumerate(planes)) if there[row] else None for row in range(count)
        ]

    def _signed(self, name: str) -> list[int | None]:
        return [None if one is None else _wrapped(one >> 1 ^ -(one & 1)) for one in self._column(name)]

    def rows(self, start: int) -> list[dict[str, Any]]:
        """start: of the run, ns since the epoch."""
        found: list[dict[str, Any]] = []
        kinds, frames, nodes = self._texts("kind"), self._texts("frames"), self._texts("nodes")

        def stack(node: int) -> str:
            names = []
            while node >= 0:
                names.append(frames[nodes[2 * node]])
                node = nodes[2 * node + 1]
            return ";".join(reversed(names))

        texts = {name: [None, *self._texts(name)] for name in ("link", "path", "command", "detail")}
        texts |= {name: [None, *map(stack, self._texts(name))] for name in ("site", "call_stack")}
        codes = {name: self._column(name) for name in texts}
        kind, steps, extent = self._column("kind"), self._column("time"), self._column("extent")
        names = {"duration": "duration", "calls": "calls", "errno": "errno", "fd": "fd", "offset": "file_offset",
                 "requested": "bytes_requested", "moved": "bytes_moved", "cpu": "cpu_time",
                 "parent": "parent"}  # fmt: skip
        signed = {name: self._signed(name) for name in names}
        submitted = self._column("submitted")
        for process, tid, count, *_ in self.head["lanes"]:
            time, ends = self.head["base"] + start, {}
            for row in range(len(found), len(found) + count):
                time = _wrapped(time + (steps[row] or 0))
                made = {other: signed[name][row] for name, other in names.items()}
                moved, offset = made["bytes_moved"], made["file_offset"]
                if moved is not None:
                    made["bytes_moved"] = moved = _wrapped((made["bytes_requested"] or 0) - moved)
                path = codes["path"][row]
                if offset is not None:
                    made["file_offset"] = offset = _wrapped(offset + ends.get(path, 0))
                    ends[path] = offset + (moved or 0)
                made |= dict(zip(("layer", "op", "op_class", "op_role"), kinds[kind[row]], strict=True))
                made |= {name: known[codes[name][row]] for name, known in texts.items()}
                made |= {"process": process, "tid": tid, "time": time, "submitted": bool(submitted[row])}
                made |= {"extent": extent[row], "parent": None if made["parent"] is None else row - made["parent"]}
                found.append(made)
        return found

    @property
    def policy(self) -> str:
        """Its Content-Security-Policy."""
        found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', self.html)
        assert found
        return found[1]


def _wrapped(number: int) -> int:
    """As int64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
