"""The process in its system: another user, a read-only root, no home, a pid file, PORT."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys

import pytest
from harness.combining import each_once, long
from harness.interpreter import NEEDS_LINUX, later_on_pypy
from harness.process import run_command

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another")
NOBODY = pwd.getpwnam("nobody")

TELLING = """\
import json, os, pathlib
AT_IMPORT = [os.getuid(), os.getgid()]
(pathlib.Path(__file__).parent / "made").touch()
def app(environ, start_response):
    start_response("200 OK", [])
    masked = os.umask(0)
    os.umask(masked)
    return [json.dumps([AT_IMPORT, [os.getuid(), os.getgid()], masked]).encode()]
"""


@pytest.fixture
def tmp_path(open_folder):
    """A folder open to everybody."""
    return open_folder


@pytest.fixture
def folder(tmp_path):
    """An app that tells its user, in a folder writable by all."""
    site = tmp_path / "site"
    site.mkdir()
    site.chmod(0o777)
    (site / "telling.py").write_text(TELLING)
    return site


@pytest.mark.long_on_pypy
@needs_root
@pytest.mark.parametrize(
    "flags",
    [
        long((("--threads", "0"),)),
        ("--threads", "4"),
        pytest.param(("--workers", "2"), marks=NEEDS_LINUX),
    ],
)
def test_it_serves_as_another_user(start_process, raw_client, folder, tmp_path, flags):
    """The command binds and writes its pid file as root, imports and runs the app as another user, and gives no advice about root."""
    pid_file, path = tmp_path / "a.pid", tmp_path / "s"
    process = start_process(
        f"{folder}/telling.py:app", *flags, "--user", "nobody", "--umask", "027",
        "--pid-file", str(pid_file), "--bind", f"unix:{path}",
    )  # fmt: skip
    assert pid_file.read_text() == f"{process.pid}\n"
    who = [NOBODY.pw_uid, NOBODY.pw_gid]
    assert raw_client(process).fetch().body.decode() == f"[{who}, {who}, {0o027}]"
    made = (folder / "made").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (*who, 0o640)
    process.signal()
    assert process.wait() == 0
    assert "as root" not in process.log
    before, _, after = process.log.partition("serving on")
    assert f"the pid file {pid_file} will stay at the end, as user nobody" in before and "pid file" not in after
    assert pid_file.exists()


@needs_root
@pytest.mark.skipif(sys.platform != "linux", reason="gunicorn's files start workers")
@pytest.mark.parametrize(
    ("owner", "logs"),
    each_once(
        ["nobody", "root"], [["accesslog"], ["errorlog"], ["accesslog", "errorlog"], ["accesslog", "dictionary"]]
    ),
    ids=str,
)
@pytest.mark.parametrize("is_checked", [False, long(True)])
def test_log_files_of_another_user(raw_client, folder, wait_until, logs, owner, is_checked):
    """gunicorn's file names a user and logs, in a folder of the user's or of root's: the user writes and owns them."""
    place = folder / "logs"
    place.mkdir()
    os.chown(place, pwd.getpwnam(owner).pw_uid, 0)
    folder.chmod(0o755)
    dictionary = {
        "handlers": {"file": {"class": "logging.FileHandler", "filename": f"{place}/dictionary"}},
        "loggers": {name: {"handlers": ["file"], "level": "INFO"} for name in ("gunicorn.error", "gunicorn.access")},
    }
    lines = [
        f"{name} = '{place}/{name}'" if name != "dictionary" else f"logconfig_dict = {dictionary}" for name in logs
    ]
    (folder / "conf.py").write_text("\n".join(["user = 'nobody'", f"chdir = '{folder}'", *lines]))
    (folder / "shop.py").write_text(
        "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'']\n"
    )
    words = [sys.executable, "-Im", "aserve", "shop:app", "--gunicorn-conf", f"{folder}/conf.py"]
    words += ["--bind", f"unix:{folder}/socket"]
    if is_checked:
        assert subprocess.run([*words, "--check"], capture_output=True, cwd=folder, timeout=60).returncode == 0
    process = subprocess.Popen(words, cwd=folder)

    def connect():
        assert process.poll() is None
        with contextlib.suppress(OSError):  # missing, or nobody listens yet
            return raw_client(f"{folder}/socket")

    try:
        assert wait_until(connect).fetch("/seen").status == 200
        if "accesslog" in logs:  # lines with a dictionary go there, as in gunicorn
            wait_until(lambda: "GET /seen" in (place / logs[-1].replace("errorlog", "accesslog")).read_text())
        assert {path.name: path.stat().st_uid for path in place.iterdir()} == dict.fromkeys(logs, NOBODY.pw_uid)
        for name in logs:
            (place / name).rename(place / f"{name}.1")
        assert raw_client(f"{folder}/socket").fetch("/again").status == 200
    finally:
        process.terminate()
    assert process.wait(60) == 0
    if logs[-1] != "accesslog":  # the new file, or the old where its user may make none
        assert "SIGTERM" in (place / f"{logs[-1]}{'.1' if owner == 'root' else ''}").read_text()


@needs_root
@pytest.mark.parametrize("flags", [(), pytest.param(("--workers", "1"), marks=NEEDS_LINUX)])
def test_the_log_config_of_another_user(start_process, raw_client, folder, flags):
    """Files of --log-config belong to the user, who opens them in each worker, and again at a reload."""
    place = folder / "logs"
    place.mkdir()
    os.chown(place, NOBODY.pw_uid, 0)
    handlers = {
        "file": {"class": "logging.FileHandler", "filename": f"{place}/messages"},
        "console": {"class": "logging.StreamHandler"},
    }
    content = {"handlers": handlers, "loggers": {"aserve": {"handlers": [*handlers], "level": "INFO"}}}
    (folder / "log.json").write_text(json.dumps(content))
    (folder / "log.json").chmod(0o644)
    words = ["--user", "nobody", "--log-config", f"{folder}/log.json", *flags]
    process = start_process(f"{folder}/telling.py:app", *words)
    assert raw_client(process).fetch().status == 200
    assert (place / "messages").stat().st_uid == NOBODY.pw_uid
    if flags:
        process.signal(signal.SIGHUP)
        process.wait_for_log("SIGHUP: done in")
    process.signal()
    assert process.wait() == 0 and "SIGTERM" in (place / "messages").read_text()


HELD = """\
import os, resource, threading, time
def watch():
    while True:
        count = 1 if os.path.exists("LIMITED") else resource.getrlimit(resource.RLIMIT_NPROC)[1]
        resource.setrlimit(resource.RLIMIT_NPROC, (count, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
def app(environ, start_response):
    while os.path.exists("GATE"):
        time.sleep(0.05)
    start_response("200 OK", [])
    return [b"done"]
"""


@pytest.mark.long_on_pypy
@needs_root
@NEEDS_LINUX
@pytest.mark.parametrize("flags", [(), ("--workers", "1")], ids=str)
def test_threads_that_the_system_does_not_start(
    need_python_of_all, start_process, raw_client, tmp_path, wait_until, flags
):
    """Started threads serve, and `aserve status` counts them; once the system gives more, more start."""
    gate, control, user = tmp_path / "gate", tmp_path / "run" / "control", str(500_000 + os.getpid())
    control.parent.mkdir(mode=0o777)
    control.parent.chmod(0o777)
    limited = tmp_path / "limited"
    (tmp_path / "held.py").write_text(HELD.replace("GATE", str(gate)).replace("LIMITED", str(limited)))
    process = start_process(
        f"{tmp_path}/held.py:app", *flags, "--threads", "16", "--user", user, "--group", user, "--control", str(control)
    )

    def status():
        return run_command("status", "--control", control).stdout

    def send():
        clients.append(raw_client(process))
        clients[-1].request("/")
        return True

    clients = []
    gate.touch()
    send()
    limited.touch()
    assert wait_until(lambda: send() and " of 16 threads: the system starts no more" in status())
    limited.unlink()
    wait_until(lambda: send() and "the system starts no more" not in status())
    gate.unlink()
    assert {client.recv_response().status for client in clients} == {200}


@pytest.mark.long_on_pypy
@needs_root
def test_a_key_that_only_root_may_read(tmp_path, folder, authority):
    """An unreadable key is told at the start, not when the certificate is loaded anew."""
    issued = authority.issue("localhost")
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    shutil.copy(issued.certificate, secret / "cert.pem")
    shutil.copy(issued.key, secret / "key.pem")
    done = run(
        f"{folder}/telling.py:app", "--user", "nobody", "--bind", "https://127.0.0.1:0",
        "--certificate", f"{secret}/cert.pem", "--key", f"{secret}/key.pem",
    )  # fmt: skip
    assert done.returncode == 2
    assert (
        f"aserve: error: cannot read the certificate {secret}/cert.pem: user nobody may not enter the folder {secret}; put a copy "
        f"where it may, or let it in: chmod o+x {secret}\n" in done.stderr
    ), done.stderr


def run(*arguments):
    return run_command(*arguments, env={"PATH": os.environ["PATH"]})


@pytest.mark.long_on_pypy
def test_the_pid_file_of_one_that_cannot_bind(start_process, tmp_path):
    """A second server without its address leaves the first server's pid file alone."""
    flags = ("--bind", f"unix:{tmp_path}/s", "--pid-file", str(tmp_path / "a.pid"))
    process = start_process("hello", *flags)
    assert run(*flags).returncode == 2
    assert (tmp_path / "a.pid").read_text() == f"{process.pid}\n"
    process.signal()
    assert process.wait() == 0 and not (tmp_path / "a.pid").exists()


@pytest.mark.parametrize(
    "flags",
    [
        (),
        pytest.param(("--workers", "1"), marks=NEEDS_LINUX),
    ],
)
def test_a_second_server_with_the_same_pid_file(start_process, tmp_path, flags):
    """A second server refuses, and names the first, also after an upgrade in place; the file of a killed server blocks nobody."""
    path = tmp_path / "a.pid"
    more = ("--bind", "127.0.0.1:0", "--pid-file", str(path))
    process = start_process("hello", *flags, *more)
    for is_upgraded in (False, True) if flags else (True,):
        second = run("wsgiref.simple_server:demo_app", *more)
        assert second.returncode == 2
        assert f"the pid file {path} is that of a server that runs, pid {process.pid}: stop that" in second.stderr
        assert path.read_text() == f"{process.pid}\n"
        if not is_upgraded:
            process.signal(signal.SIGUSR2)
            process.wait_for_log("SIGUSR2: done in ")
    process.signal(signal.SIGKILL)
    process.wait()
    third = start_process("hello", *flags, *more)
    assert path.read_text() == f"{third.pid}\n"


@pytest.mark.long_on_pypy
def test_port_listens_on_all_interfaces(start_process, raw_client, tmp_path):
    process = start_process("hello", launcher=["env"], PORT="0")
    assert "no --bind, and PORT is 0: listening on all IPv4 interfaces" in process.log
    assert raw_client(process).fetch().body == b"hello\n"
    port = process.address[1]
    sockets = pathlib.Path("/proc/net/tcp").read_text() if sys.platform == "linux" else f"00000000:{port:04X}"
    assert f" 00000000:{port:04X} " in f" {sockets} "


def can_make_a_root():
    """Tell whether this test may make a mount namespace."""
    if sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    if pathlib.Path("/tmp") in pathlib.Path(sys.prefix).parents:
        return False  # /tmp is empty in there
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


# Everything is read-only but /tmp, a file system of its own, as in a container with a tmpfs there. The tested code may stand in a closed folder: so
# all of it may be read, and nothing written.
READ_ONLY = """\
set -e
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount --bind / /mnt
mount --bind /tmp /mnt/tmp
mount --rbind /proc /mnt/proc
mount --rbind /dev /mnt/dev
mount -o remount,bind,ro /mnt
cd /
exec chroot /mnt setpriv --reuid 54321 --regid 54321 --clear-groups --inh-caps -all,+dac_read_search \\
    --ambient-caps -all,+dac_read_search --bounding-set -all,+dac_read_search env -i PATH=/usr/bin:/bin "$@"
"""


# Runs in there: an upload through a temporary file, and the end.
SERVING = """\
import pathlib, subprocess, sys, time, urllib.request
pathlib.Path("/tmp/app.py").write_text('''
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"%d" % len(environ["wsgi.input"].read())]
''')
log = open("/tmp/log", "w+")
command = [sys.executable, "-Im", "aserve", "/tmp/app.py", "--bind", "127.0.0.1:0", "--threads", sys.argv[1]]
server = subprocess.Popen(command, stdout=log, stderr=log)
try:
    text = ""
    while not text.endswith("\\n") and server.poll() is None:
        time.sleep(0.01)
        text = open("/tmp/log").read()
    with urllib.request.urlopen(text.split()[-1], data=bytes(1 << 20), timeout=20) as response:
        print("uploaded", response.read().decode())
    server.terminate()
    print("ended", server.wait(20))
finally:
    server.kill()
    print(open("/tmp/log").read())
"""

ELSEWHERE = """\
import os, tempfile
os.chdir("/")
def app(environ, start_response):
    start_response("200 OK", [])
    return [f"{__name__} {tempfile.gettempdir()}".encode()]
"""


@pytest.mark.long_on_pypy
@pytest.mark.skipif(not can_make_a_root(), reason="only root of a machine may make a root that cannot be written to")
@pytest.mark.parametrize("threads", [long("0"), "2"])
def test_a_read_only_root(threads):
    """With a read-only root, a user without a name and without HOME, aserve starts, serves and ends without a warning."""
    command = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", sys.executable, "-I", "-c", SERVING, threads]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and "uploaded 1048576\nended 0\n" in text, text
    assert "serving on" in text and "stopped" in text
    for word in ("WARNING", "ERROR", "Traceback"):
        assert word not in text, text


@NEEDS_LINUX
@pytest.mark.parametrize("flags", [later_on_pypy(()), ("--preload",)], ids=["forked", "by a mold"])
def test_nothing_is_left_open(start_process, raw_client, flags):
    """With -X dev neither the supervisor nor a worker tells of an open socket."""
    dev = "import os, sys; os.execv(sys.argv[1], [sys.argv[1], '-X', 'dev', *sys.argv[2:]])"
    flags = ("--bind", "127.0.0.1:0", "--workers", "1", "--metrics", "127.0.0.1:0", *flags)
    process = start_process("hello", *flags, launcher=[sys.executable, "-Ic", dev])
    assert raw_client(process).fetch().body == b"hello\n"
    process.signal()
    assert process.wait(30) == 0 and "ResourceWarning" not in process.log, process.log


@pytest.mark.parametrize("flags", [(), pytest.param(("--workers", "1"), marks=NEEDS_LINUX), ("--user", "root")])
def test_an_app_that_changes_the_folder_at_import(start_process, raw_client, tmp_path, flags):
    """Every path is relative to the folder of the start: sockets, files, a mounted app, and the folder of temporary files."""
    if "--user" in flags and os.geteuid() != 0:
        pytest.skip("only root may name a user")
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(ELSEWHERE)
    (tmp_path / "temporary").mkdir()
    sockets = {"a.sock", "m.sock", "c.sock"}
    process = start_process(
        "one:app", *flags, "--bind", "unix:a.sock", "--metrics", "unix:m.sock", "--control", "c.sock", "--pid-file", "a.pid",
        "--access-log", "a.log", "--mount", "/two=./two.py:app", TMPDIR="temporary",
    )  # fmt: skip
    assert f"unix:{tmp_path}/a.sock" in process.log
    assert {path.name for path in tmp_path.iterdir() if path.is_socket()} == sockets
    assert (tmp_path / "a.pid").read_text() == f"{process.pid}\n"
    process.address = str(tmp_path / "a.sock")
    for path, name in (("/", "one"), ("/two", "two")):
        assert raw_client(process).fetch(path).body.decode() == f"{name} {tmp_path}/temporary"
    process.signal()
    assert process.wait() == 0 and (tmp_path / "a.log").read_text().count("\n") == 2
    assert not any(path.is_socket() for path in tmp_path.iterdir())
