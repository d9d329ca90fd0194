# a Dockerfile: a socket for nginx | http:app.sock
gunicorn --bind unix:app.sock --umask 007 --workers 2 app:app
