"""A spooler's words to the supervisor."""

import os

from aserve.compat.uwsgi_api.spooler.board import PAGE_BYTES, Page
from aserve.core.memory_file import map_memory_file, open_memory_file


def test_a_job_is_named_and_counted():
    """A job is named while running, and counted at the end; both sides see the job."""
    memory = memoryview(bytearray(PAGE_BYTES))
    ours, theirs = Page(memory), Page(memory)
    assert theirs.job() is None
    ours.begin("a job")
    name, seconds = theirs.job()
    assert name == "a job" and 0 <= seconds < 60
    ours.end("retried")
    ours.begin("\udcff" + "n" * PAGE_BYTES)
    assert theirs.job()[0].startswith("\\udcffnnn") and len(theirs.job()[0]) < PAGE_BYTES
    ours.end("done")
    assert theirs.job() is None and memory.cast("Q")[:3].tolist() == [1, 0, 1]


def test_where_it_is():
    """The supervisor names descriptor and number; without a word nobody is told."""
    fd = open_memory_file("pages")
    os.truncate(fd, 2 * PAGE_BYTES)
    page = Page.inherited(f"{os.dup(fd)},1", map_memory_file)
    page.end("failed")
    assert os.pread(fd, 16, PAGE_BYTES) == bytes(8) + (1).to_bytes(8, "little") and os.pread(fd, 16, 0) == bytes(16)
    os.close(fd)
    page = Page.inherited("", map_memory_file)
    page.begin("x")
    assert page.job()[0] == "x"
