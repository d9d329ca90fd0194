"""Connections on their way from one worker to another."""
