"""Proxies in front of this server: the trusted peers, their claims about clients, and the claims that count."""
