"""Samples as a text that a Parquet log carries: some 6 bytes for each run of equal samples.

Numbers are kept as differences from what is likely: a thread's row begins where
the one before ended, and a row's processor time and delay fill it.  Then come all
lowest bytes, all second bytes and so on, and zstd makes them small.  The text may be
anyone's; whatever it claims, reading it takes no more memory than the most samples
that a log keeps.
"""

from __future__ import annotations

import base64
import binascii
import json

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.samples import MOST, NAMES, NOTHING, Collected, Columns, Samples, checked
from pyio_trace.log.sorting import distinct

#: The name of the attachment.
NAME = "samples"
_VERSION = 1
_WORD = 8
#: Most bytes of the texts of stacks.
_MOST_TEXT = 64 << 20


def encoded(samples: Samples) -> str:
    """The text of samples; decoded() reads it."""
    import pyarrow as pa

    used = distinct(samples["stack"][samples["stack"] >= 0])
    known = [samples.stacks[at] for at in used.tolist()]
    place = np.where(samples["stack"] < 0, -1, np.searchsorted(used, samples["stack"]))
    columns = samples.columns | {"stack": place}
    texts, kept = _within_limit(known)
    columns["stack"] = np.where(columns["stack"] < kept, columns["stack"], -1)
    raw = b"".join(_shuffled(_differences(columns)[name]) for name in NAMES) + texts
    packed = pa.compress(raw, codec="zstd", asbytes=True)
    return f"{_VERSION} {len(samples)} {len(texts)} {base64.b64encode(packed).decode()}"


def decoded(text: str, processes: int) -> Samples:
    """The samples of a text; processes: how many there are.  Raises ValueError for a text that encoded() has not
    written."""
    import pyarrow as pa

    version, rows, texts, packed = _parts(text)
    if version != _VERSION or not 0 < rows <= MOST or not 0 < texts <= _MOST_TEXT:
        raise ValueError("not samples of this version")
    size = rows * len(NAMES) * _WORD
    try:
        raw = pa.decompress(packed, decompressed_size=size + texts, codec="zstd", asbytes=True)
        stacks = json.loads(raw[size:])
    except (pa.ArrowException, OSError, RecursionError):
        raise ValueError("damaged samples") from None
    if len(raw) != size + texts or not isinstance(stacks, list) or not all(type(one) is str for one in stacks):
        raise ValueError("damaged samples")
    words = np.frombuffer(raw, np.uint8, size).reshape(len(NAMES), _WORD, rows)
    columns = _from_differences({name: _unshuffled(words[at]) for at, name in enumerate(NAMES)})
    if not checked(columns, processes, len(stacks)):
        raise ValueError("samples of what does not exist")
    collected = Collected()
    collected.add(columns)
    return Samples(collected.columns(), stacks)


def _parts(text: str) -> tuple[int, int, int, bytes]:
    version, rows, texts, packed = text.split(" ")
    try:
        return int(version), int(rows), int(texts), base64.b64decode(packed, validate=True)
    except binascii.Error:
        raise ValueError("damaged samples") from None


def _within_limit(stacks: list[str]) -> tuple[bytes, int]:
    """The stacks as JSON, and how many of them fit."""
    lengths = np.cumsum([len(json.dumps(one)) + 2 for one in stacks], dtype=np.int64)
    kept = int(np.searchsorted(lengths, _MOST_TEXT - 2, "right"))
    return json.dumps(stacks[:kept]).encode(), kept


def _differences(columns: Columns) -> Columns:
    ends = columns["time"] + columns["duration"]
    found = {name: _steps(columns[name]) for name in ("process", "thread", "stack", "state")}
    found |= {name: columns[name] for name in ("duration", "delay", "samples")}
    found["time"] = columns["time"] - np.concatenate([NOTHING["time"], [0], ends[:-1]])[: len(ends)]
    found["cpu"] = columns["duration"] - columns["delay"] - columns["cpu"]
    return found


def _from_differences(found: Columns) -> Columns:
    columns = {name: np.cumsum(found[name]) for name in ("process", "thread", "stack", "state")}
    columns |= {name: found[name] for name in ("duration", "delay", "samples")}
    columns["cpu"] = found["duration"] - found["delay"] - found["cpu"]
    gaps = np.cumsum(found["time"])
    columns["time"] = gaps + np.cumsum(found["duration"]) - found["duration"]
    return columns


def _steps(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.diff(values, prepend=np.int64(0))


def _shuffled(values: NDArray[np.int64]) -> bytes:
    """Small numbers of either sign as small unsigned ones, all their lowest bytes first."""
    zigzag = (values << 1) ^ (values >> 63)
    return np.ascontiguousarray(zigzag.astype("<i8").view(np.uint8).reshape(-1, _WORD).T).tobytes()


def _unshuffled(raw: NDArray[np.uint8]) -> NDArray[np.int64]:
    zigzag = np.ascontiguousarray(raw.T).view("<u8").reshape(-1)
    return (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
