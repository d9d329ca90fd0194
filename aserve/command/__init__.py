"""The `aserve` command: from argv to the process that serves, or to a text.

cli.py says which task is asked for; read it first, then start.py and serving.py; outcome.py turns errors into lines and a status. plans.py reads what is to be served, apps.py imports it, start_notes.py logs what
the user should know then. with_workers.py begins the supervisor of `--workers`, as_child.py does the work of its children, alone.py begins the
control socket of a process without one. handed_down.py reads what a previous supervisor passes on. subcommands.py
and showing.py are the tasks that serve nothing. flags.py, completion.py and explain.py are about flags,
finding.py looks for apps if none was named, banner.py describes what is served.
"""
