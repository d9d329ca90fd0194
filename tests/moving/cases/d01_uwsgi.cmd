# a Dockerfile: HTTP, a module, processes
uwsgi --http :@PORT@ --module app --master --processes 4
