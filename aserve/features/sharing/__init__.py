"""Sharing between hosts over Redis or Valkey (--shared): connections, and leases. uwsgi_api/ and spooler/ define the data there."""
