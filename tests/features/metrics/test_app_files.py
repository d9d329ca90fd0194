"""The folder of workers for the app's counts."""

import os
from types import MappingProxyType, SimpleNamespace

import pytest

from aserve.features import Config
from aserve.features.metrics import app_files as module
from aserve.features.metrics.app_files import GIVEN, AppFiles, chosen_folder, enter, leave


@pytest.fixture(autouse=True)
def roots(monkeypatch, tmp_path):
    """Where folders are made."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(module, "ROOTS", (str(tmp_path / "gone"), str(tmp_path / "memory")))
    return tmp_path / "memory"


def test_a_folder_of_our_own(roots):
    """Only this user may enter it; it goes with its owner, and stays with an owner whose end was unasked."""
    files = AppFiles.open("")
    assert os.path.dirname(files.folder) == str(roots) and os.stat(files.folder).st_mode & 0o777 == 0o700
    (roots / "other").mkdir()
    again = AppFiles.inherit(files.describe())
    open(f"{files.folder}/counter_w1.db", "w").close()
    again.close()
    assert os.listdir(roots) == ["other"]


def test_abandoned_folders_are_removed(roots):
    """Folders of a killed supervisor are removed by the next; folders in use, and other files, are not."""
    kept, lost = AppFiles.open(None), AppFiles.open(None)
    os.close(lost.lock)
    (roots / f"{module.PREFIX}link").symlink_to("/")
    third = AppFiles.open(None)
    assert sorted(os.listdir(roots)) == sorted(
        [os.path.basename(kept.folder), os.path.basename(third.folder), f"{module.PREFIX}link"]
    )
    kept.close()
    third.close()


@pytest.mark.parametrize("moment", ["made", "opened"])
def test_supervisors_that_start_at_once(roots, monkeypatch, moment):
    """A supervisor that removes unheld folders may find one just before it is held: another is made."""
    calls = {"made": (module.tempfile, "mkdtemp"), "opened": (module.fcntl, "flock")}
    owner, name = calls[moment]
    real = getattr(owner, name)

    def others_look_once(*args, **options):
        if moment == "made":
            found = real(*args, **options)
        monkeypatch.setattr(owner, name, real)
        module._remove_abandoned(str(roots))
        return found if moment == "made" else real(*args, **options)

    monkeypatch.setattr(owner, name, others_look_once)
    files = AppFiles.open("")
    assert os.listdir(roots) == [os.path.basename(files.folder)]
    module._remove_abandoned(str(roots))
    assert os.path.isdir(files.folder)
    files.close()


def test_a_folder_that_never_stays(roots, monkeypatch, caplog):
    """The log says so, and nothing ends."""
    monkeypatch.setattr(module, "_lock", lambda folder: os.rmdir(folder))
    assert AppFiles.open("") is None
    assert "no folder for them can be made" in caplog.text and os.listdir(roots) == []


def test_the_users_folder(tmp_path):
    """The folder is made if need be, our old files are removed, and foreign ones stay, also at the end."""
    folder = tmp_path / "a" / "b"
    files = AppFiles.open(str(folder))
    for name in ("counter_w12.db", "gauge_all_w1.db", "counter_77.db", "notes"):
        (folder / name).touch()
    files.close()
    assert AppFiles.open(str(folder)).folder == str(folder)
    assert sorted(os.listdir(folder)) == ["counter_77.db", "notes"]


def test_who_is_gone(roots):
    """A gone worker's live gauges go too; its counts stay, and other workers' files."""
    files = AppFiles.open("")
    for name in (
        "gauge_livesum_w1.db",
        "gauge_liveall_w1.db",
        "gauge_livesum_w11.db",
        "gauge_all_w1.db",
        "counter_w1.db",
    ):
        open(f"{files.folder}/{name}", "w").close()
    files.forget(1)
    files.forget(2)
    assert sorted(os.listdir(files.folder)) == ["counter_w1.db", "gauge_all_w1.db", "gauge_livesum_w11.db"]
    files.close()


def test_nowhere_to_write(monkeypatch, tmp_path, caplog):
    """Then the log says so, and nothing ends."""
    (tmp_path / "file").touch()
    assert AppFiles.open(str(tmp_path / "file" / "b")) is None
    assert "the app's own metrics are left out: no folder" in caplog.text
    monkeypatch.setattr(module, "ROOTS", (str(tmp_path / "gone"),))
    assert AppFiles.open("") is None


def test_whether_there_is_to_be_one(monkeypatch):
    """With metrics there is a folder, unless the app's are unwanted, or the library is missing."""
    given = {"PROMETHEUS_MULTIPROC_DIR": "/a"}
    with_metrics = Config(metrics=":1")
    assert (chosen_folder(with_metrics, given), chosen_folder(with_metrics, {})) == ("/a", "")
    assert chosen_folder(Config(), given) is chosen_folder(Config(metrics=":1", metrics_app="off"), given) is None
    monkeypatch.setattr(module, "is_installed", lambda: False)
    assert chosen_folder(with_metrics, given) is None


@pytest.fixture
def named(monkeypatch):
    """Return where the app is to count."""
    named = []
    monkeypatch.setattr(module, "name_files", lambda environ, *where: named.append(where))
    monkeypatch.setattr(module, "_has_room", lambda folder: True)
    return named


def role_of(metrics=":1", is_trial=False, given=MappingProxyType({})):
    config = Config(workers=1, metrics=metrics)
    return SimpleNamespace(plan=SimpleNamespace(config=config), is_trial=is_trial, given=given, page_number=3)


def test_a_worker_counts_in_the_given_folder(named):
    """A worker counts in its supervisor's folder, in files of its page; without a word, where it likes."""
    enter(role_of(given={GIVEN: "/a"}), {})
    enter(role_of(), {})
    leave()
    assert named == [("/a", "w3", "")]


def test_a_trial_has_its_own_folder(named, monkeypatch, tmp_path):
    """A trial has its own folder, removed with it, whatever the workers have."""
    root = tmp_path / "trials"
    root.mkdir()
    monkeypatch.setattr(module, "ROOTS", (str(root),))
    environ = {"PROMETHEUS_MULTIPROC_DIR": "/no/such/folder"}
    enter(role_of(None, is_trial=True), environ)
    assert named == [] and os.listdir(root) == []
    enter(role_of(is_trial=True), environ)
    (name,) = os.listdir(root)
    assert named == [(str(root / name), "w3", "")]
    leave()
    assert os.listdir(root) == []
    monkeypatch.setattr(module.AppFiles, "open", lambda given: None)
    enter(role_of(is_trial=True), environ)
    assert len(named) == 1


def test_room_of_a_folder(tmp_path, monkeypatch):
    """There is room from two files on; there is none in a missing folder."""
    assert not module._has_room(str(tmp_path / "gone"))
    for free, has_room in ((511, False), (512, True)):
        monkeypatch.setattr(os, "statvfs", lambda folder, free=free: SimpleNamespace(f_bavail=free, f_frsize=4096))
        assert module._has_room(str(tmp_path)) is has_room


def test_folders_without_room(named, monkeypatch, tmp_path, caplog):
    """A folder is made where there is room. While it is full a worker has a folder of its own, and the next one counts beside the rest again."""
    full, root = tmp_path / "full", tmp_path / "memory"
    full.mkdir()
    monkeypatch.setattr(module, "ROOTS", (str(full), str(root)))
    monkeypatch.setattr(module, "_has_room", lambda folder: not folder.startswith(str(full)))
    files = AppFiles.open(None)
    assert os.path.dirname(files.folder) == str(root)
    role = role_of(given={GIVEN: str(full)})
    enter(role, {})
    ((folder, _, why),) = named
    assert os.path.dirname(folder) == str(root) != files.folder and why == f"there is no room in {full}"
    assert f"the app's own metrics of this worker are left out, until it is replaced: {why}" in caplog.text
    leave()
    files.close()
    assert os.listdir(root) == []
    monkeypatch.setattr(module, "ROOTS", (str(full),))
    assert AppFiles.open(None) is None and "No space left on device" in caplog.text
    monkeypatch.setattr(module, "_has_room", lambda folder: True)
    enter(role, {})
    assert named[1:] == [(str(full), "w3", "")]
