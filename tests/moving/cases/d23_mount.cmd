# a Dockerfile: a mount by a file, without a default app
uwsgi --http-socket :@PORT@ --master --hook-master-start "unix_signal:15 gracefully_kill_them_all" --static-map /static=static --static-map /media=run --mount /2024=app.py --manage-script-name --offload-threads 2
