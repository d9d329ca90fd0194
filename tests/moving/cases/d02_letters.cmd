# a Dockerfile: letters
uwsgi -M -p 2 --http-socket=:@PORT@ -w app:app --die-on-term
