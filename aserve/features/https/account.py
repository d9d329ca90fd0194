"""The account at the authority: the key, the registration, the address of mail.

Owns:     connect.
Thread:   the child's only one.
Spec:     RFC 8555 section 7.3.
Not here: orders (order.py).

An authority knows an account by the key. So nothing else is kept: each order asks for the account anew, and gets the existing one, or a new one
where the authority has forgotten the account, or is another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from acme import client, errors, messages
from josepy.jwk import JWKEC

from .folder import Folder
from .keys import load_key, new_key, pem_of

# The name of the account's notes: of no host, without a letter or digit at the end.
ACCOUNT = "account-"


def connect(job: Mapping[str, Any], folder: Folder, network: client.ClientNetwork) -> client.ClientV2:
    """
    Return a client of the authority with the account.

    Raises:
        acme.errors.Error, messages.Error, requests.RequestException: the authority refuses, or does not answer.
    """
    directory = client.ClientV2.get_directory(job["directory"], network)
    authority = client.ClientV2(directory, network)
    wanted = messages.NewRegistration.from_data(email=job["email"], terms_of_service_agreed=True)
    try:
        authority.new_account(wanted)
    except errors.ConflictError as known:
        existing = messages.RegistrationResource(uri=known.location, body=messages.Registration())
        network.account = existing
        if job["email"] != folder.read_json(ACCOUNT).get("email"):
            authority.update_registration(existing, messages.Registration.from_data(email=job["email"]))
    folder.write_json(ACCOUNT, {"email": job["email"]})
    return authority


def key_of(folder: Folder) -> JWKEC:
    """
    Return the account's key; make a missing one.

    Raises:
        OSError, ValueError: the key cannot be read or written, or is damaged.
    """
    with contextlib.suppress(FileNotFoundError), open(folder.account, "rb") as file:
        return JWKEC(key=load_key(file.read()))
    key = new_key()
    folder.write(folder.account, pem_of(key))
    return JWKEC(key=key)
