"""What several hosts share over Redis or Valkey (--shared): the connections to it, and leases. What is kept there is in uwsgi_api/ and spooler/."""
