"""Proxies before this server: who is one, what they tell of their client, and what of it is believed."""
