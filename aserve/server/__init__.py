"""One server on one event loop.

server.py serves one app: start, drain, stop. services.py makes what the connections of each listener share. running.py runs a server until it is
told to stop, in a task or as the process itself.
"""
