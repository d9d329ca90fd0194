"""uWSGI's static files: folders, their index, and expiry."""

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.uwsgi_static import place_files
from aserve.features import Config

pytestmark = pytest.mark.long_on_pypy


FACTS = {
    "static-expires-uri": "static-expires", "static-map": "static", "static-map2": "static", "check-static": "static", "mimefile": "types",
}  # fmt: skip


def placed(folder="", **options):
    """Return the draft of a file with these options, each a list."""
    draft = Draft("a.ini")
    for name, values in options.items():
        key = name.replace("_", "-")
        draft.facts.setdefault(FACTS.get(key, key), []).extend(Given(key, value, "a.ini:1") for value in values)
    place_files(draft, folder)
    return draft


def test_folders_are_below_chdir():
    """A relative folder is of chdir; an index is sent only where the file names one, as in uWSGI."""
    draft = placed("/srv", static_map=["/s=/var/s", "/m/=media"], static_index=["a.html"])
    assert draft.settings == {"static": ["/s=/var/s", "/m=/srv/media"], "static-index": ["a.html"]}
    draft = placed(static_map=["/s=/var/s"])
    assert Config.from_sources({}, {}, draft.settings).static_index == () and not draft.notes
    draft = placed("/srv", static_map2=["/s=/var"], check_static=["all"])
    assert draft.settings["static"] == ["/s=/var/s", "/=/srv/all"]
    assert placed(static_index=["a.html"]).settings == {"static-index": ["a.html"]}


def test_expiry_becomes_patterns_of_requests():
    """A pattern of files' paths becomes one of requests' paths; a year may have a few hours more."""
    draft = placed(
        static_map=["/s=/var/s", "/=/var/all/"],
        static_expires=["/s/.* 60", "^/var/s/.* 9", "/var/all/x 6", "/var/t 7", "/* 31557600", "3"],
        static_expires_uri=["/var/s 8"],
    )
    assert draft.settings["static-expires"] == [
        "/s/.* 60",
        "^/s/.* 9",
        "/x 6",
        "/var/t 7",
        "/* 31536000",
        "3",
        "/var/s 8",
    ]
    assert not draft.notes


def test_types_of_a_sites_file_are_fields(tmp_path):
    """Types are those of the site's own file; a long file is a system's, and not needed."""
    (tmp_path / "own").write_text("# ours\n\ntext/x-shop shop c++ # both\ntext/x-none\n")
    (tmp_path / "long").write_text("text/x-shop " + " ".join(map(str, range(51))) + "\n")

    def fields(name, **options):
        draft = placed(mimefile=[str(tmp_path / name)], **options)
        return draft.settings.get("static-fields"), [note.text for note in draft.notes]

    assert fields("own", static_map=["/s=/var/s"]) == (
        [r"\.shop$ Content-Type: text/x-shop", r"\.c\+\+$ Content-Type: text/x-shop"],
        [],
    )
    assert fields("own") == fields("long", static_map=["/s=/var/s"]) == (None, [])
    assert fields("absent", static_map=["/s=/var/s"]) == (
        None,
        ["it has no effect here: it cannot be read: No such file or directory"],
    )


def test_what_is_odd():
    draft = placed(static_map=["/../x=/y"], static_expires=["*.css 60"])
    assert "static" not in draft.settings and "static-expires" not in draft.settings
    assert all("it has no effect here: " in str(note) for note in draft.notes) and len(draft.notes) == 2
