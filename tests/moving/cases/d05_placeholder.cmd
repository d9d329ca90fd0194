# a Dockerfile: a placeholder
uwsgi --set n=3 --processes %(n) --master --http-socket 127.0.0.1:@PORT@ --module app
