"""From the listener to the first octet of a request: accepting, TLS, and the identity of the peer."""
