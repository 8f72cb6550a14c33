"""Damaged and forged Darshan logs: each is read or refused in one line, whatever was changed in it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.support.darshan_logs import DarshanLog, example, traced
from tests.support.soak import rounds

pytestmark = pytest.mark.once  # reading logs is the same on every Python

COMMANDS = (["summary"], ["counters"], ["files"], ["view", "by_rank"], ["insights"])


def flipped(log: DarshanLog, chance: random.Random) -> bytes:
    whole = bytearray(log.bytes())
    for _ in range(chance.choice((1, 3, 20))):
        whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
    return bytes(whole)


def cut(log: DarshanLog, chance: random.Random) -> bytes:
    whole = log.bytes()
    return whole[: chance.randrange(len(whole))]


def forged(log: DarshanLog, chance: random.Random) -> bytes:
    """Sound streams of records with odd numbers in them."""
    odd = (b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f", bytes(7) + b"\x80", bytes(6) + b"\xf8\x7f", b"\x01" * 8)
    module = chance.choice(list(log.regions))
    record = bytearray(chance.choice(log.regions[module]))
    for _ in range(chance.choice((1, 2, 9))):
        at = chance.randrange(len(record) // 8) * 8
        record[at : at + 8] = chance.choice(odd)
    log.regions[module].append(bytes(record[: chance.choice((len(record), chance.randrange(len(record))))]))
    return log.bytes()


def repeated(log: DarshanLog, chance: random.Random) -> bytes:
    """A few bytes that unpack to many equal records."""
    module = chance.choice(list(log.regions))
    log.regions[module] = [chance.choice(log.regions[module]) * chance.choice((100, 20_000))]
    return log.bytes()


@pytest.mark.parametrize("change", [flipped, cut, forged, repeated])
@pytest.mark.parametrize("seed", range(rounds(6, 250)))
def test_a_damaged_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Callable[[DarshanLog, random.Random], bytes], seed: int
) -> None:
    chance = random.Random(zlib.crc32(f"{change.__name__} {seed}".encode()))
    path = tmp_path / "damaged"
    path.write_bytes(change(chance.choice((example, traced))(), chance))
    status = main([*chance.choice(COMMANDS), str(path)])
    said = capfd.readouterr().err
    assert status in (0, 1, 2)
    assert said.count("\n") == (1 if status == 2 else 0)
