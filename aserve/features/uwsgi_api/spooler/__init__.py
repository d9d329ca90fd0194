"""Jobs in a folder, which processes of their own do (--spooler): what uWSGI calls the spooler.

folder.py has the files, runner.py the process that does the jobs, board.py what it tells the supervisor, functions.py what the app calls: `uwsgi.spool` and the decorators
of uwsgidecorators. ../module.py puts those into the modules; processes/attached.py keeps the processes running.
"""
