"""Connections and requests that this process gives up: to another server, or with an answer."""
