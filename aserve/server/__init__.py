"""One server on one event loop.

server.py serves one app: start, drain, stop. Its parts: listening.py has the listeners and their connections, app_threads.py the threads that run
the app, commons.py what all listeners have in common, services.py what is made for each. running.py runs a server until it must stop, in a
task or as the process itself.
"""
