"""What a rule finds, and what helps against it whatever the library is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyio_trace.insights.finding import Remedy

Words: TypeAlias = dict[tuple[str, str], Remedy]

#: A file is opened, and read, again; within one opening, its bytes are read again.
READ_AGAIN, STEPPED_BACK = "read again", "stepped back"
#: What describes the content of a store is read again.
DESCRIBED_AGAIN = "described again"
#: Files are put into an archive again.
PACKED_AGAIN = "packed again"
#: A file that grows is read from its start each time.
GROWN = "grown"
#: A buffer is filled with far more than is taken from it.
FETCHED_MORE = "more fetched than used"
#: Most of what a process reads, another one has read.
READ_BY_EACH = "read by each process"
#: A whole file is loaded again, for a part of it each time.
LOADED_WHOLE = "loaded whole"
#: A file is flushed after each item.
FLUSHED = "flushed"
#: A file is opened for each item that is read from it, or added to it.
OPENED_TO_READ, OPENED_TO_ADD = "opened again to read", "opened again to add"
#: A small file for each item.
FILES_READ, FILES_WRITTEN = "many files read", "many files written"
#: System calls for little each; the same where one request of the library makes many of them.
SMALL_READS, SMALL_WRITES, SMALL_PIECES = "small reads", "small writes", "small pieces"
#: Calls of a file object for a few bytes each.
TINY_READS, TINY_WRITES = "tiny reads", "tiny writes"
#: Reads here and there; a file that is read and written by turns; accesses that begin within a block; a file that
#: several processes write in small parts; closes that take long.
RANDOM_READS, CHANGED_IN_PLACE, UNALIGNED = "random reads", "changed in place", "unaligned"
SHARED, LONG_CLOSE = "shared file", "long close"
#: Data whose unpacking, or packing, takes longer than I/O.
UNPACKING, PACKING = "unpacking", "packing"

#: Mechanisms whose words also fit, if a library has none for one.
LIKE: Mapping[str, tuple[str, ...]] = {
    STEPPED_BACK: (READ_AGAIN,),
    OPENED_TO_READ: (READ_AGAIN,),
    READ_BY_EACH: (),
    DESCRIBED_AGAIN: (),
    PACKED_AGAIN: (),
}
#: What is true for every library.
WORDS: Words = {
    (READ_AGAIN, ""): Remedy("Read it once, and keep what is used."),
    (DESCRIBED_AGAIN, ""): Remedy(
        "Open it once, and keep what is opened: each opening reads what describes its content."
    ),
    (PACKED_AGAIN, ""): Remedy("Pack only what has changed since, or all of it once, at the end."),
    (GROWN, ""): Remedy("Keep the place up to which it was read, and go on from there."),
    (STEPPED_BACK, ""): Remedy("Go through the file once, in its own order; or keep what is used again."),
    (FETCHED_MORE, ""): Remedy("Read less at a time: more is fetched than used."),
    (READ_BY_EACH, ""): Remedy(
        "Read it in one process, and pass each of the others its part (as an argument, by a pool's initializer, or "
        "in shared memory). Where workers are spawned, each runs what the module has at its top: move it below "
        "if __name__ == '__main__'."
    ),
    (OPENED_TO_READ, ""): Remedy("Open it once, outside of the loop, and keep it open."),
    (OPENED_TO_ADD, ""): Remedy("Open it once, outside of the loop, and keep it open; or add many items in one call."),
    (LOADED_WHOLE, ""): Remedy("Load it once, and keep it."),
    (FLUSHED, ""): Remedy("Flush once in many items, or leave it to the close."),
    (FILES_READ, ""): Remedy("Keep many items in one file."),
    (FILES_WRITTEN, ""): Remedy("Keep many items in one file."),
    (SMALL_READS, ""): Remedy("Read large blocks: 1 MiB and more, many items in one call."),
    (SMALL_WRITES, ""): Remedy("Write large blocks: 1 MiB and more, many items in one call."),
    (SMALL_PIECES, ""): Remedy("The file is stored in small pieces: store it in larger ones, of 100 KiB and more."),
    (TINY_READS, ""): Remedy("A library makes these calls: ask it for many items in one call."),
    (TINY_WRITES, ""): Remedy("A library makes these calls: give it many items in one call."),
    (RANDOM_READS, ""): Remedy("Read in the order of the file; or read it whole, if it fits into memory."),
    (CHANGED_IN_PLACE, ""): Remedy("Change many records in memory, and write them at once."),
    (UNALIGNED, ""): Remedy("Pad the header, and round sizes up to the block."),
    (SHARED, ""): Remedy("Let each process write large blocks of its own."),
    (LONG_CLOSE, ""): Remedy("Let a thread write and close, while the program goes on."),
    (UNPACKING, ""): Remedy("Store what is read often with a faster compression, or without one."),
    (PACKING, ""): Remedy("Use a lower level of compression, or a faster one."),
}
