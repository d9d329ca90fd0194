# a Dockerfile: two binds, a time-out
gunicorn -b 127.0.0.1:@PORT@ -b unix:app.sock -t 120 --graceful-timeout 5 --keep-alive 2 app
