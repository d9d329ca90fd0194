# a variable of the shell in a value
workers = 1
timeout = 300  # five minutes
bind = "0.0.0.0:$PORT"
