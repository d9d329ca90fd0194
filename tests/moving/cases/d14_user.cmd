# a Dockerfile: a user, in letters and words
uwsgi --http-socket :@PORT@ --uid www-data --gid www-data -w app -p 2 --threads 2 --master --log-date --disable-logging
