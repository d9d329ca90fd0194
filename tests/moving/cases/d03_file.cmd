# a Dockerfile: a file, and options beside it
uwsgi --ini extra.ini:two --http-socket 127.0.0.1:@PORT@ --wsgi-file app.py --callable app
