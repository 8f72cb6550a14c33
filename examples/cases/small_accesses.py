"""Case 2, small accesses: a file of records of 288 bytes, read one by one with a system call each.

Between them are a few reads of 1.2 MB, which move half of the bytes in a hundredth
of the time.  With --fixed the file is buffered, and the loop is the same.
"""

from pathlib import Path

import case

RECORD, RECORDS = 288, 150_000
BLOCK, BLOCKS = 1_200_000, 36


def make(folder: Path) -> None:
    (folder / "records.bin").write_bytes(bytes(range(RECORD // 2)) * (2 * RECORDS))
    (folder / "fields.bin").write_bytes(bytes(BLOCK * BLOCKS))


def read(folder: Path, buffering: int) -> case.Did:
    total = checksum = 0
    with open(folder / "records.bin", "rb", buffering=buffering) as file:
        for _ in range(RECORDS):
            record = file.read(RECORD)
            checksum += record[0]
            total += len(record)
    with open(folder / "fields.bin", "rb", buffering=0) as file:
        field = bytearray(BLOCK)
        for _ in range(BLOCKS):
            total += file.readinto(field)
    return {"records": RECORDS, "blocks": BLOCKS, "bytes_read": total, "checksum": checksum}


if __name__ == "__main__":
    case.run("small_accesses", lambda folder: read(folder, 0), lambda folder: read(folder, 1 << 20), make)
