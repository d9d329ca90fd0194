# a Dockerfile: a virtual environment is named, and options as words
uwsgi --http-socket=127.0.0.1:@PORT@ --wsgi-file=app.py --callable=app --processes=1 --threads=2 --enable-threads --vacuum
