"""The `aserve` command: from what was typed to the process that serves, or to the text that answers.

cli.py says which task is asked for; read it first, then serving.py. words.py and showing.py are the tasks that serve nothing. flags.py, completion.py and
explain.py are about what can be typed, finding.py is for who has named no app, banner.py says what is served, with_workers.py begins the supervisor of
`--workers`, top.py and top_screen.py are `aserve top`.
"""
