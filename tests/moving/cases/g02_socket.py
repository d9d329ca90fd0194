# a unix socket closed by umask | http:app.sock
bind = "unix:app.sock"
umask = 0o007
user = "www-data"
group = "www-data"
