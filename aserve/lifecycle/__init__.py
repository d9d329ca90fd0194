"""One process from its start to its end: importing the app, its user, folder and log, and its exit.

Start:    surroundings.py, logs.py, privileges.py, pid_file.py, fd_store.py; checks and settings at the very start: standard_streams.py,
          preconditions.py, arenas.py, switch_interval.py.
The app:  loading.py imports the app, mounts.py several; app_check.py and misnamed.py explain a wrong app or a wrong name; hooks.py calls the app's functions for each
          process.
Life:     signals.py; manager.py, with reports to systemd; failing.py, the reason to replace the process.
End:      exits.py.
Not here: the order of these steps (command/cli.py, server/running.py), serving (server/), several processes (processes/).
"""
