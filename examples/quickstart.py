"""A small real program to trace: text, binary, JSON, a child process and a pool.

    python -m pyio_trace examples/quickstart.py

It writes weather readings as text, converts each station's file to binary in a
pool of processes, has a child process sum them up as JSON, and reads that back.
It works in a temporary folder and takes about a second.
"""

import json
import random
import struct
import subprocess
import sys
import tempfile
from multiprocessing import Pool
from pathlib import Path

STATIONS = 6
READINGS = 80_000
RECORD = struct.Struct("<id")  # minute, temperature

CHILD = """
import json, struct, sys
folder, size = sys.argv[1], struct.calcsize("<id")
means = {}
for name in sys.argv[2:]:
    total = count = 0
    with open(f"{folder}/{name}.bin", "rb") as file:
        while block := file.read(size):  # small reads, on purpose: see them in the summary
            total += struct.unpack("<id", block)[1]
            count += 1
    means[name] = total / count
with open(f"{folder}/means.json", "w") as file:
    json.dump(means, file, indent=1)
"""


def write_text(folder: Path, name: str) -> None:
    """Writes the readings of one station, one per line."""
    weather = random.Random(name)
    with open(folder / f"{name}.csv", "w") as file:
        file.write("minute,temperature\n")
        for minute in range(READINGS):
            file.write(f"{minute},{weather.gauss(15, 5):.2f}\n")


def to_binary(path: Path) -> int:
    """Writes the readings of a text file as fixed-size records beside it; returns how many there are."""
    count = 0
    with open(path) as lines, open(path.with_suffix(".bin"), "wb") as records:
        next(lines)
        for line in lines:
            minute, temperature = line.split(",")
            records.write(RECORD.pack(int(minute), float(temperature)))
            count += 1
    return count


def main() -> None:
    names = [f"station{number}" for number in range(STATIONS)]
    with tempfile.TemporaryDirectory(prefix="quickstart-") as temporary:
        folder = Path(temporary)
        for name in names:
            write_text(folder, name)
        with Pool(2) as pool:
            total = sum(pool.map(to_binary, [folder / f"{name}.csv" for name in names]))
        subprocess.run([sys.executable, "-c", CHILD, temporary, *names], check=True)
        means = json.loads((folder / "means.json").read_text())
    warmest = max(means, key=means.get)
    print(f"{total} readings of {len(means)} stations; the warmest is {warmest} with {means[warmest]:.2f} degrees")


if __name__ == "__main__":
    main()
