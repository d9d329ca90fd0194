"""Files are opened below their folder, and nowhere else."""

import contextlib
import errno
import os
import socket

import pytest

from aserve.features.files import opening
from aserve.features.files.opening import ServedFolder


@pytest.fixture
def site(tmp_path):
    """Return a folder with files, beside a hidden one."""
    (tmp_path / "secret").write_bytes(b"secret")
    site = tmp_path / "site"
    (site / "sub" / "deep").mkdir(parents=True)
    (site / "a.css").write_bytes(b"a")
    (site / "a.css.gz").write_bytes(b"zipped")
    (site / "sub" / "deep" / "b").write_bytes(b"b")
    return site


def read(site, path, may_leave=False):
    """Return octets of a file, "folder", or None."""
    found = ServedFolder(str(site), may_leave).find([os.fsencode(name) for name in path.split("/") if name])
    if found is None:
        return None
    try:
        return os.read(found.fd, 100) if found.is_file else "folder"
    finally:
        found.close()


@pytest.fixture(autouse=True)
def fds(tmp_path):
    """Every descriptor into the test's folder is closed again."""
    yield
    assert [path for path in open_paths() if path.startswith(str(tmp_path))] == []


def open_paths():
    """Yield the targets of this process's descriptors; threads of other tests may close theirs meanwhile."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/self/fd/{fd}")


@pytest.mark.parametrize("may_leave", [False, True])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.css", b"a"),
        ("sub/deep/b", b"b"),
        ("", "folder"),
        ("sub", "folder"),
        ("sub/deep", "folder"),
        ("no", None),
        ("no/such", None),
        ("a.css/b", None),
        ("x" * 300, None),
    ],
)
def test_files_and_folders_are_found(site, path, expected, may_leave):
    assert read(site, path, may_leave) == expected


@pytest.mark.parametrize("is_absolute", [True, False])
@pytest.mark.parametrize("place", ["link", "sub/link"])
def test_links_inside_are_followed(site, place, is_absolute):
    (site / place).symlink_to(site / "a.css" if is_absolute else os.path.relpath(site / "a.css", (site / place).parent))
    (site / "folder").symlink_to("sub")
    (site / "chain").symlink_to("folder")
    assert read(site, place) == b"a"
    assert read(site, "folder/deep/b") == read(site, "chain/deep/b") == b"b"
    assert read(site, "chain") == "folder"


def test_links_as_kubernetes_makes_them(site):
    """A volume of a ConfigMap has its files behind two links, one with dots in its name."""
    (site / "..2026").mkdir()
    (site / "..2026" / "key").write_bytes(b"value")
    (site / "..data").symlink_to("..2026")
    (site / "key").symlink_to("..data/key")
    assert read(site, "key") == b"value"


@pytest.mark.parametrize(
    ("place", "to", "path"),
    [
        ("link", "../secret", "link"),
        ("link", "/etc/passwd", "link"),
        ("link", "..", "link/secret"),
        ("link", "..", "link/site/a.css/x"),
        ("sub/link", "../..", "sub/link/secret"),
        ("link", "link", "link"),
        ("link", "gone", "link"),
    ],
)
def test_links_that_lead_out(site, place, to, path):
    """Links out are not followed, unless allowed."""
    (site / place).symlink_to(to)
    assert read(site, path) is None
    if path.endswith("secret") or to == "../secret":
        assert read(site, path, may_leave=True) == b"secret"


def test_a_folder_of_a_similar_name(site):
    """An equal beginning does not make a path one inside."""
    (site.parent / "site2").mkdir()
    (site.parent / "site2" / "a").write_bytes(b"no")
    (site / "link").symlink_to("../site2/a")
    assert read(site, "link") is None


def test_a_link_that_appears_meanwhile(site, monkeypatch):
    """A resolved path is opened without following links: a new one is not followed."""
    (site / "link").symlink_to("sub/deep/b")
    real = os.path.realpath

    def change(path):
        found = real(path)
        if found.endswith(b"/b"):
            (site / "sub" / "deep" / "b").unlink()
            (site / "sub" / "deep" / "b").symlink_to(site.parent / "secret")
        return found

    monkeypatch.setattr(opening.os.path, "realpath", change)
    assert read(site, "link") is None


def test_a_link_that_becomes_a_folder_meanwhile(site, monkeypatch):
    """The path is resolved as a link, and is none by then: at that moment there is no such file."""
    link = site / "link"
    link.symlink_to("sub")
    read_link = os.readlink

    def change(path, **options):
        if link.is_symlink():
            link.unlink()
            link.mkdir()
        return read_link(path, **options)

    monkeypatch.setattr(os, "readlink", change)
    assert read(site, "link/deep/b") is None
    assert not link.is_symlink()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EILSEQ])
@pytest.mark.parametrize("may_leave", [False, True])
def test_names_that_a_file_system_cannot_have(site, monkeypatch, number, may_leave):
    """As on exFAT, or on ZFS that takes UTF-8 only."""

    def refuse(path, *args, **options):
        raise OSError(number, "no such name")

    monkeypatch.setattr(opening.os, "open", refuse)
    assert read(site, "a\udcff", may_leave) is None


def test_the_folder_itself_may_be_a_link(site):
    """The folder's path was configured; its target is found anew for each file."""
    current = site.parent / "current"
    current.symlink_to("site")
    assert read(current, "sub/deep/b") == b"b"
    current.unlink()
    (site.parent / "next").mkdir()
    (site.parent / "next" / "c").write_bytes(b"c")
    current.symlink_to("next")
    assert (read(current, "sub/deep/b"), read(current, "c")) == (None, b"c")


def test_one_file_has_nothing_below(site):
    """A file may stand for the folder; below is nothing."""
    assert read(site / "a.css", "") == b"a"
    assert read(site / "a.css", "b") is None
    assert read(site / "gone", "") is None


@pytest.mark.parametrize("may_leave", [False, True])
def test_what_is_no_file(site, may_leave):
    """A FIFO does not block, and is none; nor is a socket."""
    os.mkfifo(site / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(site / "socket"))
        assert read(site, "fifo", may_leave) is None and read(site, "socket", may_leave) is None


def test_siblings_take_its_place(site):
    """A regular file beside it takes its place."""
    (site / "a.css.br").mkdir()
    (site / "a.css.zst").symlink_to("../secret")
    found = ServedFolder(str(site), False).find([b"a.css"])
    assert found is not None
    assert not found.take_sibling(b".br") and not found.take_sibling(b".zst") and not found.take_sibling(b".gone")
    assert found.take_sibling(b".gz") and found.status.st_size == 6
    fd = found.take_fd()
    found.close()
    assert os.read(fd, 10) == b"zipped"
    os.close(fd)


def failing(monkeypatch, number):
    """Let open() of a name fail."""
    real = os.open

    def open_(path, *arguments, **options):
        if str(path).endswith((".css'", ".gz'")):
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **options)

    monkeypatch.setattr(opening.os, "open", open_)


def test_what_may_not_be_read(site, monkeypatch, caplog):
    """An unreadable file counts as missing, and the log says so once."""
    failing(monkeypatch, errno.EACCES)
    folder = ServedFolder(str(site), False)
    assert folder.find([b"a.css"]) is None and folder.find([b"a.css"]) is None
    (line,) = caplog.messages
    assert line == f"a file below {site} cannot be read: a.css: Permission denied (said once)"


def test_a_system_without_descriptors(site, monkeypatch):
    """A lack of descriptors is no missing file, which caches would remember."""
    found = ServedFolder(str(site), False).find([b"a.css"])
    assert found is not None
    failing(monkeypatch, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        ServedFolder(str(site), False).find([b"a.css"])
    with pytest.raises(OSError, match="Too many open files"):
        found.take_sibling(b".gz")
    found.close()
