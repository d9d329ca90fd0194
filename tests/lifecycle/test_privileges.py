"""The process's later user: names and numbers, the order of the calls, and refusals."""

import errno
import grp
import os
import pwd
import subprocess
import sys

import pytest
from harness.refusals import error_of

from aserve.lifecycle import privileges
from aserve.lifecycle.privileges import Account, become, find_account, is_root

NOBODY = pwd.getpwnam("nobody")
GROUP = grp.getgrall()[-1]
UNKNOWN = "54321"  # no account on any machine that is for tests

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another")


@pytest.mark.parametrize(
    ("user", "group", "account"),
    [
        (None, None, None),
        ("nobody", None, Account(NOBODY.pw_uid, NOBODY.pw_gid, "nobody")),
        (str(NOBODY.pw_uid), None, Account(NOBODY.pw_uid, NOBODY.pw_gid, "nobody")),
        ("nobody", GROUP.gr_name, Account(NOBODY.pw_uid, GROUP.gr_gid, "nobody")),
        ("nobody", "54321", Account(NOBODY.pw_uid, 54321, "nobody")),
        (UNKNOWN, "54321", Account(54321, 54321, None)),
        (None, GROUP.gr_name, Account(os.geteuid(), GROUP.gr_gid, None)),
    ],
)
def test_accounts_may_be_names_or_numbers(user, group, account):
    """A user brings its group; both may be nameless numbers."""
    assert find_account(user, group) == account


@pytest.mark.parametrize(
    ("user", "group", "text"),
    [
        ("no-such-user", None, "--user 'no-such-user': there is no such user"),
        ("no-such-user", "0", "--user 'no-such-user': there is no such user"),
        (None, "no-such-group", "--group 'no-such-group': there is no such group"),
        (UNKNOWN, None, "--user 54321: this machine has no name for it, and so no group; give --group"),
    ],
)
def test_accounts_that_are_not_there(user, group, text):
    assert error_of(find_account, user, group).startswith(text)


@pytest.mark.parametrize("name", ["www", None])
def test_the_order_of_the_calls(name, monkeypatch):
    """Groups, group, user: after the last one nothing more may be changed."""
    calls = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for call in ("initgroups", "setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, call, lambda *arguments, call=call: calls.append((call, *arguments)))
    become(Account(7, 8, name))
    groups = ("initgroups", "www", 8) if name else ("setgroups", [8])
    assert calls == [groups, ("setgid", 8), ("setuid", 7)]


def test_what_the_kernel_refuses(monkeypatch):
    """In a container without the capabilities the message names them."""

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "initgroups", refuse)
    text = error_of(become, Account(7, 8, "www"))
    assert text == "cannot become user www and group 8: Operation not permitted; it takes CAP_SETUID and CAP_SETGID"


def test_only_root_may(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    monkeypatch.setattr(os, "getegid", lambda: 8)
    become(Account(7, 8, None))
    assert error_of(become, Account(7, 9, None)).startswith("only root may become user 7 and group 9; leave")


def test_further_groups_come_beside_the_users(monkeypatch):
    """Further groups come beside the user's own, each once; a missing one is named."""
    calls = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "getgroups", lambda: [8, 9])
    for call in ("initgroups", "setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, call, lambda *arguments, call=call: calls.append((call, *arguments)))
    become(Account(7, 8, "www", (10, 9)))
    assert calls == [("initgroups", "www", 8), ("setgroups", [8, 9, 10]), ("setgid", 8), ("setuid", 7)]
    account = find_account("nobody", None, ["54321", GROUP.gr_name])
    assert account is not None and account.added == (54321, GROUP.gr_gid) and find_account(None, None, ["5"]) is None
    assert error_of(find_account, "nobody", None, ["no-such-group"]).startswith("--group 'no-such-group': there is no")


@needs_root
def test_root_is_given_up_for_good():
    """The process is another's, in its groups, and may not go back."""
    code = """
import os
from aserve.lifecycle.privileges import become, find_account
become(find_account("nobody", None))
print(os.getresuid(), os.getresgid(), os.getgroups())
try:
    os.setuid(0)
except PermissionError:
    print("for good")
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    groups = sorted(os.getgrouplist("nobody", NOBODY.pw_gid))
    uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
    assert done.stdout.split("\n")[:2] == [f"{(uid,) * 3} {(gid,) * 3} {groups}", "for good"]


def test_python_where_the_user_may_not_read(monkeypatch, tmp_path, caplog):
    """A virtual environment below /root: the missing part is told at once, by its folder."""
    own, closed = tmp_path / "own", tmp_path / "closed"
    own.mkdir()
    closed.mkdir()
    monkeypatch.chdir(own)
    monkeypatch.setattr(sys, "path", [str(closed), str(own), str(tmp_path / "missing.zip"), str(closed)])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for call in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, call, lambda *arguments: None)
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(closed))
    become(Account(7, 8, None))
    said = f"user 7 and group 8 may not read {closed}: no module can be imported from there"
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [said]


@pytest.mark.parametrize(
    ("uid", "text", "expected"),
    [
        (0, "         0          0 4294967295\n", True),
        (0, "         0     100000      65536\n", False),
        (0, "         0       1000          1\n         1     100000      65536\n", False),
        (0, None, True),
        (1000, "         0          0 4294967295\n", False),
    ],
)
def test_root_in_a_rootless_container_is_not_root(uid, text, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(privileges.os, "geteuid", lambda: uid)
    if text is not None:
        (tmp_path / "uid_map").write_text(text)
    assert is_root(str(tmp_path / "uid_map")) is expected
