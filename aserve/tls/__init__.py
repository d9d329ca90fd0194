"""TLS below any connection: certificates and their contexts, and the ClientHello."""
