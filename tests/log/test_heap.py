"""The heap of a log: the numbers of its objects, and reading it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pyio_trace.log.heap import Heap, ObjectNumbers
from pyio_trace.log.live import LiveLog
from tests.support.logwriter import LogWriter


def heap_of(tmp_path: Path, writer: LogWriter) -> Heap:
    return Heap(LiveLog(writer.save(tmp_path / "run.pyio")))


def test_objects_in_use_are_numbered_in_the_order_of_their_ids(tmp_path: Path) -> None:
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    first, unused, second = writer.string("/data/a"), writer.string("/data/b"), writer.desc(3, "/data/c")
    record = thread.record("STAT", begin=1_000, desc=first)
    slots = heap_of(tmp_path, writer).slots
    used = slots.of(np.array([first, second], np.uint32))
    numbers = ObjectNumbers(slots, used)
    assert numbers.count == 3
    ids = np.array([second, first, unused, 0, record, 2**32 - 1], np.uint32)
    assert numbers.of(ids).tolist() == [2, 1, 0, 0, 0, 0]
    assert numbers.of_slots(used).tolist() == [1, 2]


def test_what_is_no_object_has_no_number_even_if_a_record_refers_to_it(tmp_path: Path) -> None:
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    record, string = thread.record("STAT", begin=1_000), writer.string("/data/a")
    slots = heap_of(tmp_path, writer).slots
    ids = np.array([0, record, string], np.uint32)
    numbers = ObjectNumbers(slots, np.unique(slots.of(ids)))
    assert numbers.of(ids).tolist() == [0, 0, 1]
    assert numbers.count == 2


def test_a_released_heap_is_read_again(tmp_path: Path) -> None:
    writer = LogWriter()
    string, desc = writer.string("/data/a"), writer.desc(3, "/data/b", ino=7)
    heap = heap_of(tmp_path, writer)
    for _ in range(2):
        assert heap.text(string) == "/data/a"
        found, known = heap.descriptors(np.array([desc], np.int64))
        assert known.all()
        assert found["ino"].tolist() == [7]
        heap.release()
    heap.release()
    assert heap.kinds(np.array([string], np.int64)).all()
