"""Proxies in front of this server: which peers are proxies, what they claim about their clients, and which claims count."""
