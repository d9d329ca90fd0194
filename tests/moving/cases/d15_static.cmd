# a Dockerfile: static files
uwsgi --http-socket :@PORT@ -w app --static-map /static=static --offload-threads 2 --check-static static
