"""One process from its start to its end: what it imports, as which user, in which folder, where its messages go, and what keeps it at its exit.

Start:    surroundings.py, logs.py, privileges.py, pid_file.py, fd_store.py, switch_interval.py.
The app:  loading.py imports it; hooks.py calls the functions that it has named for its processes.
End:      exits.py.
Not here: the order of these steps (command/cli.py, server/running.py), serving (server/), several processes (processes/).
"""
