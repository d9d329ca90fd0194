"""Connections on the way between workers."""
