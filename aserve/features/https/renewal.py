"""Getting certificates and renewing them, while the server serves.

Owns:     Renewal: the thread that each minute gathers the facts of each name, and does the due steps; the lines in the log.
Thread:   a second one; `stop` the event loop.
Not here: the due step (facts.py), the order itself (order.py), the process in turn (turn.py).

The server notices the new file by itself (tls/certificates.py). While an order fails, the old certificate is served.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import urlsplit

from ...settings import ConfigError
from ...tls.chain import find_fault
from ...workers.threads import Watcher
from .attempts import first_kind, second_kind
from .child import ChildError, OrderProcess
from .facts import Do, Facts, decide, fault_of
from .faults import explain
from .folder import Folder
from .issued import GivenCertificate, Issued, UnusableError, refuse_unusable
from .notes import Notes
from .schedule import delay_after, seconds_of
from .settings import HTTPSSettings, folder_of, show_served, show_time
from .turn import take_turn

if TYPE_CHECKING:
    from .hosts import SharingHosts

logger = logging.getLogger("aserve")

LOOK_SECONDS = 60.0
# The same failure is logged once in this time.
SAME_SECONDS = 3600.0


class Renewal:
    def __init__(
        self, config: HTTPSSettings, hosts: SharingHosts | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """`hosts`: the hosts with the same names; None: this one alone."""
        self._config, self._hosts, self._now = config, hosts, now
        self._folder = Folder(folder_of(config))
        # The child has another folder.
        self._ca = os.path.abspath(config.acme_ca) if config.acme_ca is not None else None
        self._authority = urlsplit(config.acme_directory).netloc
        self._is_over = threading.Event()
        self._child: OrderProcess | None = None
        self._logged: dict[str, tuple[str, float]] = {}  # by name: the last failure, and the time of the log line

    def start(self, tells: bool = True) -> None:
        """Look from now on. `tells`: log until when each certificate is valid, and which names wait for their next try; one of several workers does."""
        Watcher(functools.partial(self._run, tells), "aserve-https").start()

    def stop(self) -> None:
        """Look no more. An order under way ends; another process, or the next start, begins the order anew."""
        self._is_over.set()
        child = self._child
        if child is not None:
            child.end()

    def _run(self, tells: bool) -> None:
        self.begin(tells)
        while True:
            self.look()
            if self._is_over.wait(LOOK_SECONDS):
                return

    def begin(self, tells: bool) -> None:
        """Let names whose last order failed wait no longer than a start allows; see `start`."""
        with contextlib.suppress(OSError), take_turn(self._folder.lock) as lock:  # without a turn they wait on
            for name in self._config.https if lock is not None else ():
                found = Notes.of(self._folder, name)
                notes = found.for_authority(self._config.acme_directory).after_start()
                if notes != found:
                    notes.write(self._folder, name)
                    if self._hosts is not None:
                        self._hosts.wait_no_more(name)
        for name in self._config.https if tells else ():
            notes = Notes.of(self._folder, name).for_authority(self._config.acme_directory)
            if notes.is_waiting(self._now()):
                logger.warning(
                    "https: the last order for %s failed: %s; next try at %s; %s",
                    name, notes.fault, show_time(notes.again), self._served(name),
                )  # fmt: skip
            elif notes.has_certificate:
                self._tell_dates(name, Issued.of(self._folder, name))

    def look(self) -> None:
        """Do the due step for each name, unless another process does."""
        try:
            self._folder.make(None)  # may have been removed
            for name in self._config.https:
                if decide(self._facts(name)) is not Do.NOTHING and not self._is_over.is_set():
                    self._take_turn(name)
        except (ConfigError, OSError) as exc:
            self._log_failure("", f"https: certificates cannot be renewed: {exc}")
        except Exception:  # a mistake of ours must not end renewals for good
            logger.exception("https: certificates could not be looked at; aserve has a mistake here")

    def _take_turn(self, name: str) -> None:
        """Do the step if still due once this process has the turn; an order takes this host's turn, too."""
        with take_turn(self._folder.lock) as lock:
            if lock is None:
                return
            with self._hosts.turn(name) if self._hosts is not None else contextlib.nullcontext(True) as may_order:
                self._act(lock, self._facts(name, is_held=not may_order))

    def _act(self, lock: int, facts: Facts) -> None:
        by_do: dict[Do, Callable[[Facts], None]] = {
            Do.TAKE: functools.partial(self._take, lock), Do.GIVE: self._give, Do.ORDER: functools.partial(self._order, lock),
        }  # fmt: skip
        act = by_do.get(decide(facts))
        if act is not None:
            act(facts)

    def _facts(self, name: str, is_held: bool = False) -> Facts:
        given = self._hosts.get(name) if self._hosts is not None else None
        return Facts(
            name, self._now(), self._config.acme_directory,
            notes=Notes.of(self._folder, name),
            issued=Issued.of(self._folder, name),
            is_shared=self._hosts is not None,
            given=given,
            theirs=Issued.of_pem(given.pem) if given is not None else None,
            is_held=is_held,
        )  # fmt: skip

    def _take(self, lock: int, facts: Facts) -> None:
        assert facts.given is not None and facts.theirs is not None
        check = functools.partial(refuse_unusable, name=facts.name, now=facts.now)
        try:
            self._folder.write(self._folder.certificate(facts.name), facts.given.pem, check=check)
        except UnusableError as fault:
            self._log_failure(
                facts.name, f"https: the certificate for {facts.name} that the hosts share is not taken: {fault}"
            )
            self._act(lock, facts._replace(theirs=None))
            return
        Notes(facts.directory).write(self._folder, facts.name)
        logger.info("https: %s has a certificate of another host, until %s", facts.name, show_time(facts.theirs.until))

    def _give(self, facts: Facts) -> None:
        assert self._hosts is not None
        with open(self._folder.certificate(facts.name), "rb") as file:
            self._hosts.put(facts.name, GivenCertificate(facts.directory, file.read()))

    def _order(self, lock: int, facts: Facts) -> None:
        name, notes = facts.name, facts.notes.for_authority(facts.directory)
        # First: without room for a file each look would have the authority sign another certificate, until a refusal.
        notes.write(self._folder, name)
        if facts.issued is None and notes.has_certificate:
            path = self._folder.certificate(name)
            fault = find_fault(path, name) if os.path.exists(path) else "it is gone"
            logger.warning("https: the certificate %s cannot be used: %s; it is ordered anew", path, fault)
        logger.info("https: asking %s for a certificate for %s", self._authority, name)
        result = self._attempt(name, notes.failures, lock)
        if self._is_over.is_set():
            return  # the child was ended
        found = facts._replace(
            now=self._now(), notes=Notes.of(self._folder, name), issued=Issued.of(self._folder, name)
        )
        result = result or fault_of(found)
        if result:
            self._fail(found, notes.failures + 1, result)
        else:
            self._succeed(found)

    def _attempt(self, name: str, failures: int, lock: int) -> dict[str, Any]:
        """Return the result of an order; where the other kind of challenge could give another result, the second result."""
        kinds = self._config.challenges
        first = first_kind(kinds, failures)
        result = self._ask(name, first, lock)
        second = second_kind(kinds, failures, result)
        if second is None:
            return result
        logger.info("https: %s was not checked by %s (%s); trying %s", name, first, result["detail"], second)
        return self._ask(name, second, lock)

    def _ask(self, name: str, kind: str, lock: int) -> dict[str, Any]:
        config = self._config
        job = {
            "do": "order", "name": name, "folder": self._folder.path, "directory": config.acme_directory, "ca": self._ca,
            "email": config.acme_email, "challenges": [kind],
            "shared": (config.shared, config.shared_prefix) if config.shared is not None else None,
        }  # fmt: skip
        try:
            child = self._child = OrderProcess(job, keep=(lock,))
            if self._is_over.is_set():  # `stop` has perhaps seen none
                child.end()
            return child.wait()
        except ChildError as fault:
            return {"kind": "child", "detail": str(fault)}
        finally:
            self._child = None

    def _succeed(self, facts: Facts) -> None:
        self._logged.pop(facts.name, None)
        self._tell_dates(facts.name, facts.ours)
        if self._hosts is not None:
            self._give(facts)  # if the store is away, a later look does

    def _tell_dates(self, name: str, issued: Issued | None) -> None:
        if issued is not None and issued.is_valid(self._now()):
            logger.info(
                "https: %s has a certificate until %s; it will be renewed on %s",
                name, show_time(issued.until), show_time(issued.renew_at),
            )  # fmt: skip

    def _fail(self, facts: Facts, failures: int, result: Mapping[str, Any]) -> None:
        name, at = facts.name, facts.now
        why = explain(name, self._authority, self._folder.path, result)
        asked = seconds_of(result.get("retry_after", ""), at)
        again = at + delay_after(failures, asked) * random.uniform(1.0, 1.1)  # noqa: S311 - processes need not agree
        notes = facts.notes._replace(failures=failures, at=at, again=again, fault=why)
        notes = notes._replace(is_asked=asked is not None, asked=facts.directory)
        notes.write(self._folder, name)
        if self._hosts is not None:
            self._hosts.wait(name, again - at)
        self._log_failure(
            name, f"https: no certificate for {name}: {why}; next try at {show_time(again)}; {self._served(name)}"
        )

    def _served(self, name: str) -> str:
        issued = Issued.of(self._folder, name)
        if issued is None or not Notes.of(self._folder, name).has_certificate:
            return show_served(None, self._now())
        return show_served(show_time(issued.until), self._now())

    def _log_failure(self, name: str, text: str) -> None:
        """Log a failure; the same one again at most once an hour."""
        why = text.partition("; next try")[0]
        last, at = self._logged.get(name, ("", 0.0))
        if last != why or not 0 <= self._now() - at < SAME_SECONDS:
            self._logged[name] = why, self._now()
            logger.error("%s", text)
