# a Dockerfile: a file without an option wins
uwsgi extra.ini --threads 4 --http-socket 127.0.0.1:@PORT@ --module app
