# a Dockerfile: a socket for nginx | uwsgi:app.sock
uwsgi --socket app.sock --chmod-socket=666 --module app --master --processes 2 --vacuum --die-on-term
