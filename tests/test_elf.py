"""The ELF reader against readelf, and against damage."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pyio_trace.elf import ElfError, is_static, read_elf

SOURCE = Path(__file__).parent / "csrc" / "writer.c"
pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elf") / "writer.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(path)], check=True)
    return path


def test_slots_are_those_that_readelf_shows(library: Path) -> None:
    told = subprocess.run(["readelf", "-rW", str(library)], capture_output=True, text=True, check=True).stdout
    shown = {
        (int(place, 16), name) for place, name in re.findall(r"^([0-9a-f]{16})  .* (\w+)@GLIBC\S* \+ 0$", told, re.M)
    }
    names = {"open", "write", "close"}
    slots = list(read_elf(library).slots(names))
    assert {(slot.at, slot.name) for slot in slots} == {(at, name) for at, name in shown if name in names}
    assert {(slot.name, slot.own) for slot in slots} == {(name, False) for name in names}
    assert [slot.kind for slot in slots if slot.name == "open"] == ["pointer"]
    assert {slot.kind for slot in slots if slot.name != "open"} <= {"call", "address"}
    assert list(read_elf(library).slots({"no_such_function"})) == []


def test_what_is_static(tmp_path: Path, library: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", str(source), "-o", str(tmp_path / "dynamic")], check=True)
    assert not is_static(str(tmp_path / "dynamic"))
    built = subprocess.run(["cc", "-static", str(source), "-o", str(tmp_path / "static")], capture_output=True)
    if built.returncode == 0:
        assert is_static(str(tmp_path / "static"))
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert not is_static(str(script)) and not is_static(str(tmp_path / "none"))


def test_damaged_files_are_an_error_or_read(library: Path, tmp_path: Path) -> None:
    """GIVEN a library cut or with bytes changed, at random WHEN read THEN slots, or ElfError; never another."""
    whole, chance = library.read_bytes(), random.Random(3)
    path = tmp_path / "damaged.so"
    errors = 0
    for _ in range(300):
        raw = bytearray(whole[: chance.choice((len(whole), chance.randrange(len(whole))))])
        for _ in range(chance.randrange(8)):
            if raw:
                raw[chance.randrange(min(len(raw), 4096))] = chance.randrange(256)
        path.write_bytes(raw)
        try:
            list(read_elf(path).slots({"open", "write"}))
        except ElfError:
            errors += 1
    assert 0 < errors < 300
