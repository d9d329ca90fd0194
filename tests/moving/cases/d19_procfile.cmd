# a Procfile: hooks, files at two paths, limits of time
uwsgi --hook-master-start "unix_signal:15 gracefully_kill_them_all" --http-socket 0.0.0.0:@PORT@ --workers 3 --master --enable-threads --threads 12 --offload-threads 12 --harakiri 300 --http-harakiri 300 --static-map /media=run --static-map /static=static --static-expires-uri ".* 86400" --static-gzip-all --module app
