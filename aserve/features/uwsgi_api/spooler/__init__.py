"""Jobs in a folder, done by separate processes (--spooler): uWSGI's spooler.

folder.py has the files, runner.py the process that does the jobs, board.py its reports to the supervisor, functions.py the app's functions: `uwsgi.spool` and
the decorators of uwsgidecorators. ../module.py puts those into the modules; processes/attached.py keeps the processes running.
"""
