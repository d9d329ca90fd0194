"""TLS below any connection: certificates and their contexts, and what a client says first."""
