"""The extension's build: hardened as far as the compiler goes, and built all the same where the compiler knows less."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from harness.benchmarks import load_module

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

BUILD = pathlib.Path(__file__).parents[2] / "cparsers" / "build.py"
needs_readelf = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("readelf") is None, reason="readelf (binutils) is not installed"
)


@pytest.fixture(scope="module")
def build():
    """Return cparsers/build.py as a module."""
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    return load_module(BUILD)


@pytest.fixture(params=["_cparsers", "_native"])
def readelf(request):
    """readelf(*flags): readelf's words on an extension."""
    extension = pytest.importorskip(f"aserve.{request.param}", reason=f"aserve.{request.param} is not built here")

    def run(*flags):
        command = ["readelf", "--wide", *flags, extension.__file__]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return run


@needs_readelf
def test_the_linker_s_part(readelf):
    """Every foreign function is bound when the extension is loaded, and their table is read-only then."""
    assert "BIND_NOW" in readelf("--dynamic") or " NOW" in readelf("--dynamic")
    assert "GNU_RELRO" in readelf("--program-headers")
    assert " RWE " not in readelf("--program-headers")  # nor is there an executable stack


@needs_readelf
def test_the_compiler_s_part(build, readelf):
    if "-fstack-protector-strong" not in build.compile_flags:
        pytest.skip("this compiler has no stack protector")
    assert "__stack_chk_fail" in readelf("--dyn-syms")


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Put a compiler in place of the real one: compiler(refused) takes all flags but these."""

    def put(*refused):
        script = tmp_path / "cc"
        cases = "".join(f"    {flag}) exit 1;;\n" for flag in refused)
        script.write_text(
            f'#!/bin/sh\nfor flag; do case "$flag" in\n{cases}    esac; done\n' if refused else "#!/bin/sh\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("CC", str(script))

    return put


def test_flags_that_the_compiler_refuses(build, compiler, monkeypatch):
    """Unknown flags of a compiler or linker are left out, and no known flag is."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(build, "FORTIFIED", build.PROBE)  # a compiler with checks of level 3 by default
    compiler()
    others = ["-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection"]
    assert build.hardening() == (others, build.LINK_HARDENING)
    compiler("-fstack-clash-protection", "-fcf-protection", "-Wl,-z*")
    assert build.hardening() == (["-fstack-protector-strong"], [])
    compiler("*")
    assert build.hardening() == ([], [])
    monkeypatch.setenv("CC", "no-such-compiler -x")
    assert build.hardening() == ([], [])


def test_where_the_libc_s_checks_are_asked_for(build, monkeypatch):
    """The checks are asked for at level 2, whatever Python's own flags; a level already set stays."""
    for own, expected in (
        ("-O2", True),
        ("-O2 -D_FORTIFY_SOURCE=1", True),
        ("-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2", False),
    ):
        monkeypatch.setenv("CFLAGS", own)
        if not build.compiles([]):
            pytest.skip("there is no compiler")
        flags, _ = build.hardening()
        assert ("-D_FORTIFY_SOURCE=2" in flags) is (expected and not build.compiles([], build.FORTIFIED))


def test_without_optimisation_there_is_no_warning(build, monkeypatch):
    """The libc warns of checks without optimisation: then the checks are left out, and the build has no warning."""
    monkeypatch.setenv("CFLAGS", "-O0")
    if not build.compiles(["-O1"]):
        pytest.skip("there is no compiler")
    flags, _ = build.hardening()
    assert build.compiles(flags)


def test_other_systems_get_no_flags_of_elf(build, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert build.hardening()[1] == []
    monkeypatch.setattr(os, "name", "nt")
    assert build.hardening() == ([], [])
