"""The committed assets are those of web/, which is typed, and small."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "pyio_trace" / "page" / "assets"


@pytest.mark.skipif(not shutil.which("esbuild"), reason="there is no esbuild")
def test_the_assets_are_built_from_these_sources(tmp_path: Path) -> None:
    version = subprocess.run(["esbuild", "--version"], capture_output=True, text=True, check=True).stdout
    built = build(tmp_path, "no")
    assert built.returncode == 0, built.stdout + built.stderr
    assert {one.name for one in tmp_path.iterdir()} == {one.name for one in ASSETS.iterdir()}
    if not version.startswith("0.17."):
        pytest.skip(f"the assets are those of esbuild 0.17; this is {version}")
    for one in ASSETS.iterdir():
        assert one.read_bytes() == (tmp_path / one.name).read_bytes(), f"{one.name}: run web/build"


@pytest.mark.skipif(not (shutil.which("esbuild") and shutil.which("tsc")), reason="there is no esbuild, or no tsc")
def test_the_types_are_right(tmp_path: Path) -> None:
    built = build(tmp_path, "yes")
    assert built.returncode == 0, built.stdout + built.stderr


def build(folder: Path, types: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "web" / "build", folder],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TYPES": types},
    )


def test_the_assets_are_small_and_end_no_element() -> None:
    assert sum(one.stat().st_size for one in ASSETS.iterdir()) < 1_000_000
    for one in ASSETS.iterdir():
        text = one.read_text("utf-8").lower()
        assert "</script" not in text and "</style" not in text and "<!--" not in text


def test_the_program_sets_texts_only_as_text() -> None:
    for one in (ROOT / "web" / "src").glob("*.ts"):
        text = one.read_text("utf-8")
        for name in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "import(",
        ):
            # The page of a server asks it for parts of the run; that of a file may not.
            assert name not in text or (one.name, name) == ("server.ts", "fetch("), (one.name, name)
