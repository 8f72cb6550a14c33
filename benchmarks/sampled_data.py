"""The files that the programs of sampled_programs read."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zlib
from pathlib import Path

import numpy
from PIL import Image


def make(folder: Path) -> None:
    """Writes all of them into a folder; about 60 MB, a few seconds."""
    _texts(folder)
    _archives(folder)
    _images(folder / "jpg")
    _baskets(folder)


def _texts(folder: Path) -> None:
    with gzip.open(folder / "rows.jsonl.gz", "wt", compresslevel=1) as file:
        for i in range(200_000):
            row = {"id": i, "name": f"customer {i % 977}", "amount": i * 7919 % 10_000 / 100, "note": "paid" * (i % 9)}
            file.write(json.dumps(row) + "\n")
    with open(folder / "corpus.txt", "w", encoding="utf8") as file:
        file.writelines(f"line {i} of the corpus, with some words äöü {i * 7919 % 1009}\n" for i in range(100_000))
    with open(folder / "words.csv", "w") as file:
        file.writelines(f"{i},word{i % 977},{i * 3.5},{i % 13}\n" for i in range(60_000))


def _archives(folder: Path) -> None:
    with tarfile.open(folder / "members.tar.gz", "w:gz", compresslevel=1) as archive:
        for i in range(100):
            content = os.urandom(120_000) + b"x" * 380_000
            member = tarfile.TarInfo(f"m{i:03d}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    frames = numpy.random.default_rng(1).integers(0, 255, (200, 96, 96), dtype="u1")
    numpy.savez_compressed(folder / "frames.npz", frames=frames, labels=numpy.arange(200))


def _images(folder: Path) -> None:
    folder.mkdir()
    base = numpy.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype="u1")
    for i in range(120):
        image = Image.fromarray(numpy.roll(base, i, 0)).resize((1200, 800), Image.Resampling.BICUBIC)
        image.save(folder / f"{i:04d}.jpg", quality=85)


def _baskets(folder: Path) -> None:
    values, index = (numpy.random.default_rng(2).random(40_000) * 1000).round(1), []
    with open(folder / "baskets.bin", "wb") as file:
        for i in range(60):
            packed = zlib.compress(numpy.roll(values, i).tobytes(), 1)
            index.append((file.tell(), len(packed)))
            file.write(packed)
    (folder / "baskets.json").write_text(json.dumps(index))
