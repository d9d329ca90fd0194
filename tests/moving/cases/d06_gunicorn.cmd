# a Dockerfile: bind and workers
gunicorn -b 0.0.0.0:@PORT@ -w 2 app
