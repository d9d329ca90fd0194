"""Connections and requests given up by this process: to another server, or with an answer."""
