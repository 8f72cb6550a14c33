"""Every function of libc is hooked or has a reason: on this machine and in the glibcs and musls we build for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import surface

pytestmark = pytest.mark.once  # of libc's names

LIBCS = [Path("/lib/x86_64-linux-gnu/libc.so.6"), Path("/lib64/libc.so.6"), Path("/lib/aarch64-linux-gnu/libc.so.6")]


def test_tables_account_for_the_lists() -> None:
    # GIVEN hooks.def, not_hooked.toml and the checked-in lists
    # WHEN each is held against the others THEN no name is missing, stale, or in both
    assert surface.problems() == []


def test_this_machines_libc_is_accounted_for() -> None:
    # GIVEN the libc that the tests run with
    libc = next((path for path in LIBCS if path.exists()), None)
    if libc is None:
        pytest.skip("this machine's libc is somewhere else")
    # WHEN its functions are looked up THEN each is hooked, or has a reason
    public = {name for name, since in surface.exported(libc).items() if since != "PRIVATE"}
    assert len(public) > 1000
    assert surface.unaccounted(public) == []


def test_page_is_current() -> None:
    # GIVEN docs/reference/surface.md WHEN it is written anew THEN it is the same
    assert surface.PAGE.read_text() == surface.page(), "run `python -m tools.surface`"


@pytest.mark.parametrize("name", ["quux", "pthread_reopen_np", "strread_np", "getpwfile", "mem_open", "clock_sync"])
def test_a_new_name_is_not_covered(name: str) -> None:
    # GIVEN a function that libc may get: of no family, or of a family, but with a word that files have
    # WHEN it is looked up THEN nobody has thought of it
    assert surface.unaccounted([name]) == [name]


def test_unrelated_families_are_covered() -> None:
    assert surface.unaccounted(["strfoo", "pthread_foo_np", "clock_foo"]) == []


def test_names_are_compared_as_versions_are() -> None:
    assert surface.glibc_at("2.4") < surface.glibc_at("2.17") < surface.glibc_at("2.36")
    assert "stat" not in surface.glibc_at("2.17") and "__xstat" in surface.glibc_at("2.17")
    assert "stat" in surface.glibc_at("2.36")


def test_braces() -> None:
    assert list(surface.expand("{,__}a{b,c}d")) == ["abd", "acd", "__abd", "__acd"]
