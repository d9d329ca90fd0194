"""Proxies before this server: who is one, what they say about their client, and what of it is believed."""
