"""The child's work on its job."""

import io
import json
import signal
import sys

import pytest

pytest.importorskip("acme", reason="needs the extra acme")

from aserve.features.https import program
from aserve.features.https.child import OrderProcess
from aserve.features.https.notes import Notes


def test_its_input_and_output(folder, monkeypatch):
    """A job comes in, a result goes out; an end is set for a child whose parent was killed."""
    monkeypatch.setattr(
        sys, "stdin", io.StringIO(json.dumps({"do": "placeholders", "folder": folder.path, "names": ["a.example"]}))
    )
    monkeypatch.setattr(sys, "stdout", out := io.StringIO())
    set_alarms = []
    monkeypatch.setattr(signal, "alarm", set_alarms.append)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    Notes("https://ca.example").write(folder, "a.example")
    program.main()
    assert out.getvalue() == "{}" and set_alarms == [program.MAX_SECONDS + 10]
    assert Notes.of(folder, "a.example") == Notes()  # a placeholder is no certificate, whatever was there before


def test_a_certificate_that_has_come_meanwhile(folder):
    """A placeholder does not replace it, nor its notes."""
    folder.write(folder.certificate("a.example"), b"by another process")
    Notes("https://ca.example").write(folder, "a.example")
    program.make_placeholders({"folder": folder.path, "names": ["a.example"]})
    with open(folder.certificate("a.example"), "rb") as file:
        assert file.read() == b"by another process"
    assert Notes.of(folder, "a.example").has_certificate


def test_as_a_process(folder):
    assert OrderProcess({"do": "placeholders", "folder": folder.path, "names": ["a.example", "b.example"]}).wait() == {}
    for name in ("a.example", "b.example"):
        with open(folder.certificate(name), "rb") as file:
            assert b"BEGIN CERTIFICATE" in file.read()
