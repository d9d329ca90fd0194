"""The `aserve` command: from argv to the process that serves, or to a text.

cli.py says which task is asked for; read it first, then serving.py. words.py and showing.py are the tasks that serve nothing. flags.py, completion.py and
explain.py are about flags, finding.py looks for apps if none was named, banner.py describes what is served, with_workers.py begins the supervisor of
`--workers`, top.py and top_screen.py are `aserve top`.
"""
