"""One process from its start to its end: what it imports, as which user, in which folder, where its messages go, and what keeps it at its exit.

Start:    surroundings.py, logs.py, privileges.py, pid_file.py, fd_store.py; what is missing or must be set early: standard_streams.py, lacking.py,
          arenas.py, switch_interval.py.
The app:  loading.py imports it, misnamed.py says what hides it; hooks.py calls the functions that it has named for its processes.
Life:     signals.py, and manager.py, which keeps systemd told; failing.py says that another process should take its place.
End:      exits.py.
Not here: the order of these steps (command/cli.py, server/running.py), serving (server/), several processes (processes/).
"""
