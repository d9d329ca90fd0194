# a Dockerfile: what another file has named in a variable, here as words; no control socket
gunicorn --workers 1 --bind 0.0.0.0:@PORT@ --access-logfile - --error-logfile - app:app
