# a Dockerfile: a user, a pid file
gunicorn -b 127.0.0.1:@PORT@ -u www-data -g www-data -p app.pid --max-requests 100 --max-requests-jitter 10 app
