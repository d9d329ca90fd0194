"""Getting certificates and renewing them, while the server serves.

Owns:     Renewal: the thread that looks each minute what is due, and its lines in the log.
Thread:   one of its own; `stop` the event loop.
Not here: the order itself (order.py), when one is due (schedule.py), which process does it (turn.py).

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
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import urlsplit

from ...settings import ConfigError
from ...workers.threads import Watcher
from .answers import kinds_of
from .child import Child, ChildError
from .faults import explain, may_help
from .folder import Folder
from .issued import Given, Issued, show_time
from .notes import Notes
from .schedule import delay_after, seconds_of
from .settings import HTTPSSettings, folder_of
from .turn import take_turn

if TYPE_CHECKING:
    from .hosts import Hosts

logger = logging.getLogger("aserve")

LOOK_SECONDS = 60.0
# The same failure is logged once in this time.
SAME_SECONDS = 3600.0


class Renewal:
    """The certificates of one server's names."""

    def __init__(self, config: HTTPSSettings, hosts: Hosts | None = None, now: Callable[[], float] = time.time) -> None:
        """`hosts`: those that share the names with this one; None: it serves them alone."""
        self._config, self._hosts, self._now = config, hosts, now
        self._folder = Folder(folder_of(config))
        # The child has another folder.
        self._ca = os.path.abspath(config.acme_ca) if config.acme_ca is not None else None
        self._authority = urlsplit(config.acme_directory).netloc
        self._is_over = threading.Event()
        self._child: Child | None = None
        self._logged: dict[str, tuple[str, float]] = {}  # by name: the last failure, and when it was logged

    def start(self, tells: bool = True) -> None:
        """Look from now on. `tells`: log which names wait for their next try; one of several workers does."""
        Watcher(functools.partial(self._run, tells), "aserve-https").start()

    def stop(self) -> None:
        """Look no more. An order that is under way ends; another process, or the next start, begins it anew."""
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
                notes = self._notes(name).after_start()
                if notes != Notes.of(self._folder, name):
                    notes.write(self._folder, name)
                    if self._hosts is not None:
                        self._hosts.wait_no_more(name)
        for name in self._config.https if tells else ():
            notes = self._notes(name)
            if notes.is_waiting(self._now()):
                logger.warning(
                    "https: the last order for %s failed: %s; next try at %s; %s",
                    name, notes.fault, show_time(notes.again), self._served(name),
                )  # fmt: skip

    def look(self) -> None:
        """Order what is due, unless another process does."""
        try:
            self._folder.make(None)  # it may have been removed
            for name in self._config.https:
                self._share(name)
                if self._is_due(name) and not self._is_over.is_set():
                    self._take_turn(name)
        except (ConfigError, OSError) as exc:
            self._log_failure("", f"https: certificates cannot be renewed: {exc}")
        except Exception:  # a mistake of ours must not end renewals for good
            logger.exception("https: certificates could not be looked at; aserve has a mistake here")

    def _take_turn(self, name: str) -> None:
        with take_turn(self._folder.lock) as lock:
            if lock is None or not self._is_due(name):
                return
            with self._hosts.turn(name) if self._hosts is not None else contextlib.nullcontext(True) as may_order:
                self._share(name)  # another host may have it by now
                if may_order and self._is_due(name):
                    self._order(name, lock)

    def _share(self, name: str) -> None:
        """Take the certificate that another host has got, if it is valid for longer than ours, or let the others have ours."""
        if self._hosts is None:
            return
        directory, given = self._config.acme_directory, self._hosts.get(name)
        if given is not None and given.directory != directory:
            return
        has_ours = Notes.of(self._folder, name).directory == directory
        ours = Issued.of(self._folder, name) if has_ours else None
        theirs = Issued.of_pem(given.pem) if given is not None else None
        if given is not None and theirs is not None and (ours is None or theirs.until > ours.until):
            self._folder.write(self._folder.certificate(name), given.pem)
            Notes(directory).write(self._folder, name)
            logger.info("https: %s has a certificate of another host, until %s", name, show_time(theirs.until))
        elif ours is not None and (theirs is None or ours.until > theirs.until):
            self._give(name)

    def _give(self, name: str) -> None:
        assert self._hosts is not None
        with open(self._folder.certificate(name), "rb") as file:
            self._hosts.put(name, Given(self._config.acme_directory, file.read()))

    def _is_due(self, name: str) -> bool:
        issued, notes, now = Issued.of(self._folder, name), self._notes(name), self._now()
        if issued is not None and now < issued.renew_at and notes.directory == self._config.acme_directory:
            return False
        return not notes.is_waiting(now)

    def _notes(self, name: str) -> Notes:
        return Notes.of(self._folder, name).for_authority(self._config.acme_directory)

    def _order(self, name: str, lock: int) -> None:
        notes = self._notes(name)
        # First: without room for a file each look would have the authority sign another certificate, until it refuses.
        notes.write(self._folder, name)
        failures = notes.failures
        kinds = kinds_of(self._config)
        logger.info("https: asking %s for a certificate for %s", self._authority, name)
        result = self._ask(name, [kinds[failures % len(kinds)]], lock)
        if may_help(result) and not failures and len(kinds) > 1:
            logger.info("https: %s was not checked by %s (%s); trying %s", name, kinds[0], result["detail"], kinds[1])
            result = self._ask(name, kinds[1:], lock)
        if self._is_over.is_set():
            return  # the child was ended
        if result:
            self._fail(name, notes, result, failures + 1)
        else:
            self._succeed(name)

    def _ask(self, name: str, kinds: list[str], lock: int) -> dict[str, Any]:
        config = self._config
        job = {
            "do": "order", "name": name, "folder": self._folder.path, "directory": config.acme_directory, "ca": self._ca,
            "email": config.acme_email, "challenges": kinds,
            "shared": (config.shared, config.shared_prefix) if config.shared is not None else None,
        }  # fmt: skip
        try:
            child = self._child = Child(job, keep=(lock,))
            if self._is_over.is_set():  # `stop` has perhaps seen none
                child.end()
            return child.wait()
        except ChildError as fault:
            return {"kind": "child", "detail": str(fault)}
        finally:
            self._child = None

    def _succeed(self, name: str) -> None:
        issued = Issued.of(self._folder, name)
        self._logged.pop(name, None)
        if issued is not None:
            logger.info(
                "https: %s has a certificate until %s; it will be renewed on %s",
                name, show_time(issued.until), show_time(issued.renew_at),
            )  # fmt: skip
        if self._hosts is not None:
            self._give(name)  # if the store is away, `_share` does so later

    def _fail(self, name: str, notes: Notes, result: dict[str, Any], failures: int) -> None:
        at, why = self._now(), explain(name, self._authority, self._folder.path, result)
        asked = seconds_of(result.get("retry_after", ""), at)
        again = at + delay_after(failures, asked) * random.uniform(1.0, 1.1)  # noqa: S311 - processes need not agree
        directory = self._config.acme_directory
        Notes(notes.directory, failures, at, again, why, asked is not None, directory).write(self._folder, name)
        if self._hosts is not None:
            self._hosts.wait(name, again - at)
        self._log_failure(
            name, f"https: no certificate for {name}: {why}; next try at {show_time(again)}; {self._served(name)}"
        )

    def _served(self, name: str) -> str:
        issued = Issued.of(self._folder, name)
        if issued is None or not Notes.of(self._folder, name).has_certificate:
            return "until then browsers warn of a placeholder"
        return f"the present one is valid until {show_time(issued.until)}"

    def _log_failure(self, name: str, text: str) -> None:
        """Log a failure; the same one again at most once an hour."""
        why = text.partition("; next try")[0]
        last, at = self._logged.get(name, ("", 0.0))
        if last != why or not 0 <= self._now() - at < SAME_SECONDS:
            self._logged[name] = why, self._now()
            logger.error("%s", text)
