"""The `aserve` command: from what was typed to the process that serves, or to the text that answers.

cli.py has the order of it all; read it first. flags.py, completion.py and explain.py are about what can be typed, finding.py is for who has named no app,
banner.py says what is served, with_workers.py begins the supervisor of `--workers`, top.py and top_screen.py are `aserve top`.
"""
