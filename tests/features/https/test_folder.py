"""The folder of keys: only its owner reads it, and its files are whole."""

import os
import shutil
import stat

import pytest

from aserve.features.https import folder as folder_module
from aserve.features.https.folder import FileOwner, Folder
from aserve.settings import ConfigError


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_rights_keep_others_out(folder):
    """Nobody else reads it, whatever the umask."""
    before = os.umask(0)
    try:
        folder.write(folder.account, b"key")
        folder.make(None)
    finally:
        os.umask(before)
    assert mode(folder.account) == 0o600
    assert {mode(folder.path), mode(folder.challenges)} == {0o700}


def test_rights_above_keep_writers_out(tmp_path):
    """Writers above could put another folder in its place: so there are none, whatever the umask."""
    before = os.umask(0)
    try:
        Folder(str(tmp_path / "a/b/https")).make(None)
    finally:
        os.umask(before)
    assert {mode(tmp_path / "a"), mode(tmp_path / "a/b")} == {0o755}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_link_in_place_of_a_folder(tmp_path, monkeypatch):
    """Root gives its own folders to the user, and not links put there by the user meanwhile."""
    victim = tmp_path / "victim"
    victim.mkdir()
    mkdir = os.mkdir

    def swap(path, mode=0o777):
        mkdir(path, mode)
        if path.endswith("certificates"):
            os.rmdir(path)
            os.symlink(victim, path)

    monkeypatch.setattr(os, "mkdir", swap)
    with pytest.raises(ConfigError, match="belongs to"):
        Folder(str(tmp_path / "https")).make(FileOwner(65534, 65534))
    assert os.stat(victim).st_uid == 0


def test_a_write_is_whole(folder, monkeypatch):
    """After a failure the old file is unchanged, and nothing is left beside it."""
    path = folder.certificate("a.example")
    folder.write(path, b"old")

    def refuse(fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            folder.write(path, b"new")
    with open(path, "rb") as file:
        assert file.read() == b"old"
    assert os.listdir(os.path.dirname(path)) == ["a.example.pem"]
    folder.write(path, b"new")
    with open(path, "rb") as file:
        assert file.read() == b"new"


def test_a_write_that_is_refused(folder):
    """The check of the new file finds the octets whole; if it raises, the old file is unchanged."""
    path = folder.certificate("a.example")
    folder.write(path, b"old")

    def refuse(beside):
        with open(beside, "rb") as file:
            raise ValueError(file.read())

    with pytest.raises(ValueError, match="new"):
        folder.write(path, b"new", check=refuse)
    with open(path, "rb") as file:
        assert file.read() == b"old"
    assert os.listdir(os.path.dirname(path)) == ["a.example.pem"]


def test_others_could_read(folder):
    """A folder or a key readable by others is refused, with a remedy."""
    folder.write(folder.certificate("a.example"), b"key")
    os.chmod(folder.certificate("a.example"), 0o640)
    with pytest.raises(ConfigError, match=r"others than .* may read .*a\.example\.pem.*chmod -R go= "):
        folder.make(None)
    os.chmod(folder.certificate("a.example"), 0o600)
    os.chmod(folder.path, 0o755)
    with pytest.raises(ConfigError, match="others than"):
        folder.make(None)


def test_another_owner_is_refused(folder):
    """The server's later user could not renew."""
    with pytest.raises(ConfigError, match=r"belongs to .*, and the server runs as 54321: chown -R 54321 "):
        folder.make(FileOwner(54321, 54321))


def test_made_for_another(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid, **_: given.append((os.path.basename(path), uid, gid)))
    with pytest.raises(ConfigError, match="belongs to"):  # as this chown does nothing
        Folder(str(tmp_path / "https")).make(FileOwner(54321, 7))
    assert given == [(name, 54321, 7) for name in ("https", "certificates", "challenges", "names")]


def test_it_cannot_be_made(tmp_path):
    """The error tells how to make it, or where to name another."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be made: .*install -d -m 700 -o \S+ .*https-folder"):
        Folder(str(tmp_path / "file/https")).make(None)


def test_notes_are_there_again(folder):
    """Notes are there again; damaged ones are none."""
    assert folder.read_json("a.example") == {}
    folder.write_json("a.example", {"failures": 1})
    assert folder.read_json("a.example") == {"failures": 1}
    for octets in (b"{", b"[]", b"\xff"):
        folder.write(f"{folder.path}/names/a.example.json", octets)
        assert folder.read_json("a.example") == {}


def test_challenges_are_dropped(folder):
    """Challenges of an interrupted order do not stay; a missing folder has none."""
    folder.write(folder.challenge("token"), b"answer")
    folder.drop_challenges()
    assert os.listdir(folder.challenges) == []
    os.rmdir(folder.challenges)
    folder.drop_challenges()


LEFT = (
    "account.pem.7.new", "certificates/a.example.pem.123.new", "challenges/tok-en_1.7.new", "challenges/a.example.pem.7.new",
    "names/a.example.json.4194304.new",
)  # fmt: skip
NOT_OURS = (
    "notes.txt",
    "a.new",
    "certificates/a.example.pem",
    "certificates/a.example.pem.new",
    "challenges/a.b.7.new",
)


def test_what_a_killed_process_has_left(folder, tmp_path):
    """Unfinished files do not stay for ever. Other files stay, files just being written too, and targets of links."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = [*(f"{folder.path}/{name}" for name in NOT_OURS), elsewhere / "a.pem.7.new", tmp_path / "b.pem.7.new"]
    gone = [f"{folder.path}/{name}" for name in LEFT]
    for path in (*kept, *gone):
        with open(path, "wb"):
            os.utime(path, (1e9, 1e9))
    kept += [f"{folder.path}/certificates/now.example.pem.8.new", f"{folder.path}/certificates/link.pem.7.new"]
    with open(kept[-2], "wb"):
        os.symlink(tmp_path / "b.pem.7.new", kept[-1])
    folder.drop_unfinished()
    assert [os.path.lexists(path) for path in (*kept, *gone)] == [True] * len(kept) + [False] * len(gone)
    shutil.rmtree(f"{folder.path}/certificates")
    os.symlink(elsewhere, f"{folder.path}/certificates")
    folder.drop_unfinished()
    assert os.listdir(elsewhere) == ["a.pem.7.new"]


def test_a_file_beside_that_is_gone(folder, monkeypatch):
    """A write that could not begin tells why."""
    monkeypatch.setattr(folder_module.os, "O_NOFOLLOW", 0)
    with pytest.raises(FileNotFoundError):
        folder.write(f"{folder.path}/none/file", b"")
