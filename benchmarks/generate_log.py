"""Writes a synthetic live log of N operations quickly, to measure loading and packing without a long capture.

    python benchmarks/generate_log.py out.pyio [--operations 10000000] [--preads]

The mix is plausible.  Processes with several threads open, read, write, seek,
stat and close files, from a few thousand stacks; half of the operations happen
inside application spans.  With --preads, one thread reads one file with pread,
as in the log of the size row.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyio_trace.log import layout
from tests.support.logwriter import OP, LogWriter

CHUNK = 1 << 20
PER_CHUNK = (CHUNK - layout.OPS_START) // layout.RECORD.itemsize
#: The operations on one file, in order.  Repeated with other files, sizes and stacks.
LIFE = ["A_OPEN", "OPEN", "FSTAT", "LSEEK", *["A_BUF_READ", "READ"] * 8, *["PREAD"] * 8, *["WRITE"] * 4, "LSEEK",
        *["READ"] * 3, "STAT", "A_BUF_CLOSE", "CLOSE"]  # fmt: skip
RATE = 2.1  # ticks per ns


@dataclass(frozen=True)
class Cast:
    """The heap objects and threads that operations refer to, by id."""

    paths: NDArray[np.uint32]
    first_desc: int  # of one per open, thread by thread; see bulk_descs
    lives: int  # opens per thread
    stacks: NDArray[np.uint32]
    threads: list[tuple[int, int]]


def bulk_descs(writer: LogWriter, paths: NDArray[np.uint32], count: int, lives: int) -> int:
    """Writes count descriptors, one per open, and returns the id of the first; the others follow it."""
    size = layout.DESC.itemsize * count
    at = writer.allocate(size)
    rows = np.zeros(count, layout.DESC)
    which = file_of(np.arange(count) // lives, np.arange(count) % lives, len(paths))
    rows["heap"] = (layout.HEAP_DESC, layout.DESC.itemsize)
    rows["fd"], rows["path"] = 3 + which % 60, paths[which]
    rows["root"] = (at >> 4) + 4 * np.arange(count)
    rows["dev"], rows["ino"] = 64, 10_000 + which
    writer.put(at, rows)
    return at >> 4


def file_of(thread: NDArray[np.int64] | int, life: NDArray[np.int64], files: int) -> NDArray[np.int64]:
    """The file of a thread's life-th open."""
    return np.asarray((life * 7919 + np.asarray(thread) * 613) % files)


def cast_of(writer: LogWriter, rng: np.random.Generator, operations: int, files: int, stacks: int) -> Cast:
    """Makes processes, files and stacks."""
    threads = []
    for number in range(4):
        pid = 1000 + number
        process = writer.process(pid, argv=["python", "train.py", str(number)], ppid=999, begin=1000, version="3.11.7")
        threads += [(process, pid * 10 + thread) for thread in range(4)]
    names = [f"/data/set-{number % 97:02d}/part-{number:06d}.bin" for number in range(files)]
    paths = [writer.string(name) for name in names]
    lives = (operations // len(threads) + PER_CHUNK) // len(LIFE) + 1
    first_desc = bulk_descs(writer, np.array(paths, np.uint32), lives * len(threads), lives)
    codes = [
        writer.code(f"/home/u/project/module_{n % 40}.py" if n % 3 else f"/usr/lib/python3.11/lib_{n}.py", f"f{n}")
        for n in range(400)
    ]
    made = []
    for _ in range(stacks):
        depth = int(rng.integers(4, 20))
        frames = zip(rng.choice(codes, depth).tolist(), rng.integers(1, 900, depth).tolist(), strict=True)
        made.append(writer.stack(*frames))
    return Cast(np.array(paths, np.uint32), first_desc, lives, np.array(made, np.uint32), threads)


def records(thread: int, first: int, count: int, at: int, cast: Cast, rng: np.random.Generator) -> NDArray[np.void]:
    """Makes count records of a thread, from its first-th on; at: file offset of the first one."""
    rows = np.zeros(count, layout.RECORD)
    number = first + np.arange(count)
    life = np.array([OP[name] for name in LIFE], np.uint8)
    step = number % len(life)
    alive = number // len(life)
    which = file_of(thread, alive, len(cast.paths))
    desc = cast.first_desc + 4 * (thread * cast.lives + alive)
    op = life[step]
    ids = (at >> 4) + 3 * np.arange(count)
    rows["op"] = op
    rows["flags"] = layout.DONE
    rows["begin"] = 1000 + (number * 4000 + rng.integers(0, 1000, count)).astype(np.uint64)
    rows["duration_lo"] = rng.integers(800, 1600, count)
    rows["stack"] = cast.stacks[(which * 31 + step // 4) % len(cast.stacks)]
    rows["desc"] = desc
    rows["aux"] = 3 + which % 60
    rows["offset"] = -1
    rows["size"] = rows["result"] = layout.NO_BYTES
    data = np.isin(op, [OP[name] for name in ("READ", "WRITE", "PREAD", "A_BUF_READ")])
    rows["size"][data] = 1 << 12
    rows["result"][data] = np.where(rng.random(int(data.sum())) < 0.05, rng.integers(0, 4096, int(data.sum())), 4096)
    preads = op == OP["PREAD"]
    rows["offset"][preads] = rng.integers(0, 1 << 18, int(preads.sum())) << 12
    seeks = op == OP["LSEEK"]
    rows["offset"][seeks] = 0
    rows["size"][seeks] = 0
    named = (op == OP["STAT"]) | (op == OP["OPEN"])
    rows["desc"][named] = cast.paths[which[named]]
    opened = op == OP["OPEN"]
    rows["offset"][opened], rows["result"][opened] = desc[opened], 3 + which[opened] % 60
    inside = np.flatnonzero(np.isin(np.roll(op, 1), [OP["A_BUF_READ"], OP["A_OPEN"], OP["A_BUF_CLOSE"]]))[1:]
    rows["parent"][inside] = ids[inside - 1]
    rows["flags"][inside] |= 1 << layout.LINK_SHIFT
    return rows


def pread_records(first: int, count: int, cast: Cast, rng: np.random.Generator) -> NDArray[np.void]:
    """Makes count records of a loop that calls pread."""
    rows = np.zeros(count, layout.RECORD)
    number = first + np.arange(count)
    rows["op"], rows["flags"] = OP["PREAD"], layout.DONE
    rows["begin"] = 1000 + np.cumsum(rng.normal(1200, 60, count).astype(np.uint64)) + np.uint64(first) * 1300
    rows["duration_lo"] = rng.normal(800, 40, count).astype(np.uint32)
    rows["stack"], rows["desc"], rows["aux"] = cast.stacks[0], cast.first_desc, 3
    rows["offset"] = number % (1 << 18) << 12
    rows["size"] = rows["result"] = 4096
    return rows


def generate(path: Path, operations: int, *, preads: bool = False, files: int = 5000, stacks: int = 3000) -> None:
    """Writes the log."""
    rng = np.random.default_rng(1)
    writer = LogWriter(tick_kind=layout.TICKS_TSC, rate=1 / RATE)
    cast = cast_of(writer, rng, operations, files, stacks)
    threads = cast.threads[:1] if preads else cast.threads
    chunks = -(-operations // PER_CHUNK)
    start = len(writer.data)
    writer.header["next"] = start + chunks * CHUNK
    done = dict.fromkeys(threads, 0)
    with path.open("wb") as file:
        file.write(writer.bytes())
        for number in range(chunks):
            process, tid = thread = threads[number % len(threads)]
            count = min(PER_CHUNK, operations - number * PER_CHUNK)
            at = start + number * CHUNK
            if preads:
                rows = pread_records(done[thread], count, cast, rng)
            else:
                rows = records(number % len(threads), done[thread], count, at + layout.OPS_START, cast, rng)
            done[thread] += count
            head = np.zeros((), layout.CHUNK)
            head["magic"], head["offset"], head["size"], head["kind"] = layout.CHUNK_MAGIC, at, CHUNK, layout.CHUNK_OPS
            head["process"], head["tid"], head["sequence"] = process, tid, number // len(threads)
            head["clock"] = writer.moment(int(rows["begin"][0]))
            body = head.tobytes() + bytes(layout.OPS_START - layout.CHUNK.itemsize) + rows.tobytes()
            file.write(body.ljust(CHUNK, b"\0"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--preads", action="store_true")
    options = parser.parse_args()
    generate(options.output, options.operations, preads=options.preads)
    print(f"{options.output}: {options.operations} operations, {options.output.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
