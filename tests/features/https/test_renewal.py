"""Orders, their challenges, and the log's lines."""

import contextlib
import logging
import os
import types

import pytest
from harness.certificates import HAS_OPENSSL, Authority
from harness.waiting import wait_until

from aserve.features import Config
from aserve.features.https import renewal as renewal_module
from aserve.features.https.child import ChildError
from aserve.features.https.issued import GivenCertificate
from aserve.features.https.notes import Notes
from aserve.features.https.renewal import Renewal
from aserve.features.https.turn import take_turn
from aserve.features.sharing.store import StoreError

pytestmark = pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")
NAME = "shop.example.org"
DIRECTORY = "https://ca.example/dir"
REFUSED = {"kind": "connection", "detail": "refused", "challenge": "tls-alpn-01"}


@pytest.fixture
def site(tmp_path, monkeypatch, caplog):
    """Return a site, whose `results` are the words of children in order; None: a certificate of 90 days is written."""
    caplog.set_level(logging.INFO, "aserve")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    issued = Authority(tmp_path / "authority").issue(NAME, days=90)
    config = Config(
        https=NAME,
        bind=["https://:443", ":80"],
        acme_terms="accept",
        https_folder=str(tmp_path / "https"),
        acme_directory=DIRECTORY,
    )
    site = types.SimpleNamespace(jobs=[], results=[], ended=[], now=0.0, config=config, caplog=caplog, issued=issued)

    class FakeChild:
        """A child with the next result."""

        def __init__(self, job, keep):
            site.jobs.append(job)
            assert keep

        def wait(self):
            result = site.results.pop(0)
            if isinstance(result, Exception):
                raise result
            if result is None:
                site.certify()
            return result or {}

        def end(self):
            site.ended.append(True)

    monkeypatch.setattr(renewal_module, "OrderProcess", FakeChild)
    site.renewal = renewal = Renewal(config, now=lambda: site.now)
    renewal._folder.make(None)

    def certify():
        renewal._folder.write(
            renewal._folder.certificate(NAME), issued.key.read_bytes() + issued.certificate.read_bytes()
        )
        Notes(DIRECTORY).write(renewal._folder, NAME)

    site.certify = certify
    import time

    site.now = time.time()
    return site


def test_first_and_renewed(site):
    """A certificate is ordered at once, and again at two thirds of the lifetime; in between nothing is asked."""
    site.results += [None, None]
    site.renewal.look()
    site.renewal.look()
    [job] = site.jobs
    assert (
        job["do"] == "order"
        and job["name"] == NAME
        and job["directory"] == DIRECTORY
        and job["challenges"] == ["tls-alpn-01"]
    )
    assert f"asking ca.example for a certificate for {NAME}" in site.caplog.text
    assert f"{NAME} has a certificate until " in site.caplog.text and "it will be renewed on" in site.caplog.text
    site.now += 59 * 86400
    site.renewal.look()
    assert len(site.jobs) == 1
    site.now += 5 * 86400
    site.renewal.look()
    assert len(site.jobs) == 2


def test_the_other_challenge(site):
    """If the first kind cannot be checked, the second is tried at once; later both take turns."""
    site.results += [REFUSED, REFUSED, REFUSED, REFUSED]
    site.renewal.look()
    assert [job["challenges"] for job in site.jobs] == [["tls-alpn-01"], ["http-01"]]
    site.renewal.look()
    assert len(site.jobs) == 2  # not before the delay is over
    for _ in range(2):
        site.now += 5 * 3600
        site.renewal.look()
    assert [job["challenges"] for job in site.jobs[2:]] == [["http-01"], ["tls-alpn-01"]]


@pytest.mark.parametrize(
    ("bind", "kinds"),
    [("https://:8443", ["tls-alpn-01"]), (["https://:8443", ":80"], ["http-01"]), ("https://:443", ["tls-alpn-01"])],
)
def test_the_challenge_is_of_the_authoritys_port(site, bind, kinds):
    site.results.append(None)
    renewal = Renewal(site.config.replace(bind=bind), now=lambda: site.now)
    renewal.look()
    assert site.jobs[0]["challenges"] == kinds


def test_failures_are_told_with_advice(site):
    """Each failure tells the advice, the next try, and the served certificate; the same failure again only after an hour."""
    site.results += [{"kind": "serverInternal", "detail": "x"}] * 8
    site.renewal.look()
    assert (
        "no certificate for shop.example.org: ca.example has trouble of its own: x; nothing is to be done here; next try at"
        in site.caplog.text
    )
    assert "; browsers warn of a placeholder" in site.caplog.text
    errors = lambda: [record for record in site.caplog.records if record.levelname == "ERROR"]  # noqa: E731
    site.now += 700
    site.renewal.look()
    assert len(site.jobs) == 2 and len(errors()) == 1
    site.now += 4000
    site.renewal.look()
    assert len(site.jobs) == 3 and len(errors()) == 2


def test_a_failure_after_a_success(site):
    """The failure is logged, even if the same was logged within the hour."""
    site.results += [{"kind": "serverInternal", "detail": "x"}, None, {"kind": "serverInternal", "detail": "x"}]
    site.renewal.look()
    site.now += 700
    site.renewal.look()
    os.remove(site.renewal._folder.certificate(NAME))
    site.renewal.look()
    assert site.caplog.text.count("has trouble of its own") == 2


def test_the_old_one_serves(site):
    """A failed renewal leaves the present certificate."""
    site.results += [None, {"kind": "rateLimited", "detail": "x", "retry_after": "864000"}]
    site.renewal.look()
    site.now += 70 * 86400
    site.renewal.look()
    assert "the present one is valid until" in site.caplog.text
    site.now += 7 * 86400  # the authority's word counts, up to eight days
    site.renewal.begin(tells=False)  # for a start, too
    site.renewal.look()
    assert len(site.jobs) == 2


def test_a_private_authority(site, tmp_path, monkeypatch):
    """The root's file may have a relative path: the child, with another working directory, gets an absolute one."""
    monkeypatch.chdir(tmp_path)
    site.results.append(None)
    Renewal(site.config.replace(acme_ca="ca.pem"), now=lambda: site.now).look()
    assert site.jobs[0]["ca"] == str(tmp_path / "ca.pem")


def test_another_directory_is_asked_at_once(site):
    """After tries with another authority a site gets the certificate of the right authority at once."""
    site.results += [None, None]
    site.renewal.look()
    Renewal(site.config.replace(acme_directory="https://other.example/dir"), now=lambda: site.now).look()
    assert len(site.jobs) == 2


def test_another_directory_after_a_failure(site):
    """An authority after a wait of a week, or many refusals, does not hold up another, such as the staging directory."""
    site.results += [{"kind": "rateLimited", "detail": "x", "retry_after": "604800"}, {"kind": "serverInternal"}, None]
    site.renewal.look()
    other = Renewal(site.config.replace(acme_directory="https://other.example/dir"), now=lambda: site.now)
    other.begin(tells=True)
    assert "the last order for" not in site.caplog.text
    other.look()
    other.look()
    assert [job["directory"] for job in site.jobs] == [
        DIRECTORY,
        "https://other.example/dir",
    ]  # and has a delay
    site.now += 700
    other.look()
    assert len(site.jobs) == 3


def test_no_room_means_no_order(site, monkeypatch):
    """Without room for a file nothing is ordered: each look would have another certificate signed, and lost."""

    def refuse(fd):
        raise OSError(28, "No space left on device")

    site.results.append(None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        site.renewal.look()
    assert site.jobs == [] and "certificates cannot be renewed: [Errno 28] No space left" in site.caplog.text
    site.renewal.look()
    assert len(site.jobs) == 1


def test_a_child_that_fails(site):
    site.results.append(ChildError("No module named 'acme'"))
    site.renewal.look()
    assert "could not do it: No module named 'acme'" in site.caplog.text


def test_another_process_orders(site):
    """Then this process does not."""
    with take_turn(site.renewal._folder.lock):
        site.renewal.look()
    assert site.jobs == []


def test_an_order_done_meanwhile_is_not_repeated(site, monkeypatch):
    """An order done by another process during this process's wait is not done again."""

    @contextlib.contextmanager
    def wait_for_turn(path):
        site.certify()
        with take_turn(path) as lock:
            yield lock

    monkeypatch.setattr(renewal_module, "take_turn", wait_for_turn)
    site.renewal.look()
    assert site.jobs == [] and Notes.of(site.renewal._folder, NAME).has_certificate


def test_a_folder_that_is_gone(site, monkeypatch):
    """The folder is made anew; an unusable folder is told once an hour, and the thread goes on."""
    os.rename(site.renewal._folder.path, site.renewal._folder.path + ".gone")
    site.results.append(None)
    site.renewal.look()
    assert len(site.jobs) == 1
    os.chmod(site.renewal._folder.path, 0o755)
    site.renewal.look()
    site.renewal.look()
    assert site.caplog.text.count("certificates cannot be renewed: others than") == 1


@pytest.mark.provokes("a mistake here")
def test_a_mistake_of_ours(site, monkeypatch):
    """Our mistake is logged, and renewals go on."""
    monkeypatch.setattr(renewal_module, "decide", lambda facts: 1 / 0)
    site.renewal.look()
    assert "aserve has a mistake here" in site.caplog.text


def test_a_damaged_certificate(site):
    site.results += [None, None, None]
    site.renewal.look()
    for count, octets in enumerate((b"-----BEGIN CERTIFICATE-----\n\n-----END", b""), 2):
        site.renewal._folder.write(site.renewal._folder.certificate(NAME), octets)
        site.renewal.look()
        assert len(site.jobs) == count
    assert site.caplog.text.count(".pem cannot be used: it is not certificates in PEM, and nothing else; it is") == 2
    os.remove(site.renewal._folder.certificate(NAME))
    site.results.append({"kind": "serverInternal", "detail": "x"})
    site.renewal.look()
    assert ".pem cannot be used: it is gone; it is ordered anew" in site.caplog.text


def test_a_certificate_that_is_due_at_once(site):
    """A clock months ahead has each certificate renewed at once: the authority is asked ever less often, and the log says to look at the clock."""
    site.results += [None, None, None]
    site.now += 80 * 86400
    site.renewal.look()
    site.renewal.look()
    assert len(site.jobs) == 1
    assert "is to be renewed already: it is valid until" in site.caplog.text and "clock" in site.caplog.text
    assert "the present one is valid until" in site.caplog.text
    site.now += 700
    site.renewal.look()
    site.now += 700
    site.renewal.look()
    assert len(site.jobs) == 2
    site.now -= 80 * 86400 + 1400  # once the clock is right, all is well
    site.renewal.look()
    assert len(site.jobs) == 2


def test_a_success_whose_file_is_gone(site):
    """The authority is not asked for another with each look."""
    site.results += [{}, {}]
    site.renewal.look()
    site.renewal.look()
    assert len(site.jobs) == 1 and "is to be renewed already: its dates cannot be read" in site.caplog.text


def test_start_and_stop(site, monkeypatch):
    """The first look is at once, and more follow; a server's end ends an order, without a note."""
    monkeypatch.setattr(renewal_module, "LOOK_SECONDS", 0.001)
    looks = []
    monkeypatch.setattr(Renewal, "look", lambda self: looks.append(True))
    monkeypatch.setattr(Renewal, "begin", lambda self, tells: looks.append(tells))
    site.renewal.start()
    wait_until(lambda: len(looks) > 2)
    assert looks[0] is True
    site.renewal.stop()
    monkeypatch.undo()


def test_no_order_after_the_end(site):
    """A late look begins no order."""
    site.renewal.stop()
    site.renewal.look()
    assert site.jobs == []


def test_the_end_of_an_order(site, monkeypatch):
    """An order interrupted by the server's end is no failure: the next start begins anew."""

    class Cut:
        """A child ended at work."""

        def __init__(self, job, keep):
            pass

        def wait(self):
            site.renewal.stop()
            raise ChildError("its process ended with status -9")

        def end(self):
            site.ended.append(True)

    monkeypatch.setattr(renewal_module, "OrderProcess", Cut)
    site.renewal.look()
    assert site.ended == [True] and Notes.of(site.renewal._folder, NAME) == Notes()


def test_an_end_while_an_order_begins(site):
    site.renewal.stop()
    site.results.append(ChildError("its process ended with status -9"))
    with take_turn(site.renewal._folder.lock) as lock:
        site.renewal._order(lock, site.renewal._facts(NAME))
    assert site.ended == [True] and Notes.of(site.renewal._folder, NAME) == Notes()


def test_a_start_after_a_failure(site):
    """The log tells the failure, and the next try is a minute after the last; each start does so, and one worker tells."""
    site.results += [REFUSED, {"kind": "connection", "detail": "refused", "challenge": "http-01"}, None]
    site.renewal.look()
    before = Notes.of(site.renewal._folder, NAME)
    site.caplog.clear()
    with take_turn(site.renewal._folder.lock):
        site.renewal.begin(tells=False)
    assert Notes.of(site.renewal._folder, NAME) == before  # another process orders
    site.renewal.begin(tells=True)
    [record] = site.caplog.records
    assert "the last order for shop.example.org failed: ca.example could not connect" in record.getMessage()
    assert "next try at" in record.getMessage() and "placeholder" in record.getMessage()
    site.renewal.begin(tells=False)
    assert len(site.caplog.records) == 1
    site.now += 61
    site.renewal.look()
    assert len(site.jobs) == 3
    site.caplog.clear()
    site.renewal.begin(tells=True)
    [record] = site.caplog.records
    assert f"{NAME} has a certificate until " in record.getMessage()
    site.now += 1000 * 86400  # the certificate has expired, and the log has no praise
    site.caplog.clear()
    site.renewal.begin(tells=True)
    assert not site.caplog.records


# Several hosts


class FakeHosts:
    """The store of several hosts, in memory."""

    def __init__(self):
        self.given, self.waits, self.may_order = None, [], True

    def get(self, name):
        return self.given

    def put(self, name, given):
        self.given = given

    def wait(self, name, seconds):
        self.waits.append(seconds)

    def wait_no_more(self, name):
        self.waits.clear()

    @contextlib.contextmanager
    def turn(self, name):
        yield self.may_order


@pytest.fixture
def hosts(site):
    """Return the hosts of a site."""
    site.renewal._hosts = hosts = FakeHosts()
    return hosts


def given_of(site, directory=DIRECTORY):
    return GivenCertificate(directory, site.issued.key.read_bytes() + site.issued.certificate.read_bytes())


def test_what_it_gets_all_have(site, hosts):
    """The certificate goes to all hosts, with the key."""
    site.results.append(None)
    site.renewal.look()
    assert hosts.given == given_of(site)


def test_a_store_that_is_away_when_an_order_succeeds(site, hosts):
    """All hosts get the certificate as soon as the store is back: else each would order, and authorities allow few."""

    def fail(name, given):
        raise StoreError("away")

    put, hosts.put = hosts.put, fail
    site.results.append(None)
    site.renewal.look()
    assert hosts.given is None
    hosts.put = put
    site.renewal.look()
    assert hosts.given == given_of(site)
    hosts.given = None  # the store has lost all data
    site.renewal.look()
    assert hosts.given == given_of(site)


def test_what_another_has_got(site, hosts):
    """Another host's certificate is taken over, once, and nothing is ordered; not a certificate of another authority, nor a damaged or older one."""
    hosts.may_order = False
    for given in (given_of(site, "https://other.example/dir"), GivenCertificate(DIRECTORY, b"damaged")):
        hosts.given = given
        site.renewal.look()
        assert not Notes.of(site.renewal._folder, NAME).has_certificate
    hosts.given = given_of(site)
    site.renewal.look()
    site.renewal.look()
    assert site.caplog.text.count("has a certificate of another host, until") == 1 and site.jobs == []
    with open(site.renewal._folder.certificate(NAME), "rb") as file:
        assert file.read() == hosts.given.pem


@pytest.mark.parametrize("is_due", [False, True])
def test_what_clients_would_refuse_is_not_taken(site, hosts, tmp_path, is_due):
    """A certificate for another name does not replace a good one, whoever the sender: the good one replaces the wrong."""
    site.results.append(None)
    site.renewal.look()
    good = hosts.given
    other = Authority(tmp_path / "other").issue("other.example", days=365)
    hosts.given = GivenCertificate(DIRECTORY, other.key.read_bytes() + other.certificate.read_bytes())
    site.now += 70 * 86400 if is_due else 0
    site.results.append({"kind": "serverInternal", "detail": "x"})
    site.renewal.look()
    site.renewal.look()
    assert "that the hosts share is not taken: Hostname mismatch" in site.caplog.text
    assert (len(site.jobs), hosts.given) == (2 if is_due else 1, good)
    with open(site.renewal._folder.certificate(NAME), "rb") as file:
        assert file.read() == good.pem


def test_several_processes_of_a_host(site, hosts, monkeypatch):
    """One process takes another host's certificate, and one gives ours; the rest find all done, and the log says so once."""
    hosts.given, gifts = given_of(site), []
    with take_turn(site.renewal._folder.lock):
        site.renewal.look()
    assert not Notes.of(site.renewal._folder, NAME).has_certificate  # another process may be about to write later
    other = Renewal(site.config, hosts, now=lambda: site.now)

    @contextlib.contextmanager
    def wait_for_turn(path):
        with monkeypatch.context() as patched:
            patched.setattr(renewal_module, "take_turn", take_turn)
            other.look()
        with take_turn(path) as lock:
            yield lock

    monkeypatch.setattr(renewal_module, "take_turn", wait_for_turn)
    site.renewal.look()
    assert site.caplog.text.count("has a certificate of another host, until") == 1
    hosts.given = None
    monkeypatch.setattr(hosts, "put", lambda name, given: (gifts.append(name), setattr(hosts, "given", given)))
    site.renewal.look()
    assert gifts == [NAME] and hosts.given == given_of(site) and site.jobs == []


def test_another_hosts_turn(site, hosts):
    """Then this host waits."""
    hosts.may_order = False
    site.renewal.look()
    assert site.jobs == []


def test_done_by_another_host_meanwhile(site, hosts, monkeypatch):
    """At this host's turn, the certificate may be there: the host takes the certificate, and orders no second."""

    @contextlib.contextmanager
    def turn(name):
        hosts.given = given_of(site)
        yield True

    monkeypatch.setattr(hosts, "turn", turn)
    site.renewal.look()
    assert site.jobs == [] and Notes.of(site.renewal._folder, NAME).has_certificate


def test_a_failure_is_all_hosts(site, hosts):
    """More hosts do not repeat an order failed here, until the time is over, or after a start with mended settings."""
    site.results.append({"kind": "serverInternal", "detail": "x"})
    site.renewal.look()
    [seconds] = hosts.waits
    assert 600 <= seconds <= 660
    site.renewal.begin(tells=False)
    assert hosts.waits == []


def test_a_store_that_is_away(site, hosts):
    """Nothing is ordered, as every host could do so; the log says why."""

    def fail(name):
        raise ConnectionError("redis is away")

    hosts.get = fail
    site.renewal.look()
    assert site.jobs == [] and "certificates cannot be renewed: redis is away" in site.caplog.text


def test_which_challenge_of_several_hosts(site):
    """HTTP-01, answered by each host; the second kind only where port 80 is taken."""
    site.results += [None, None]
    for bind in (["https://:443", ":80"], ["https://:443"]):
        config = site.config.replace(bind=bind, shared="redis://localhost", shared_prefix="shop")
        renewal = Renewal(config, now=lambda: site.now)
        os.remove(renewal._folder.certificate(NAME)) if site.jobs else None
        renewal.look()
    assert [job["challenges"] for job in site.jobs] == [["http-01"], ["tls-alpn-01"]]
    assert site.jobs[0]["shared"] == ("redis://localhost", "shop")
