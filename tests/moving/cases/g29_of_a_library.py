# hooks and a worker class of a library, values of None, a name that gunicorn has not
from beside_gunicorn import ready, starting

bind = "0.0.0.0:@PORT@"
workers = 2
worker_class = "beside_gunicorn.CountingWorker"
worker_connections = 1000
timeout = 30
keepalive = 2
accesslog = "-"
errorlog = "-"
loglevel = "info"
proc_name = "shop-exporter"
when_ready = ready
on_starting = starting
preload_app = True
daemon = False
pidfile = None
user = None
group = None
tmp_upload_dir = None
keyfile = None
certfile = None
worker_tmp_dir = "/dev/shm"
graceful_timeout = 30
max_requests = 1000
max_requests_jitter = 100
max_worker_connections = 1000
backlog = 2048
reload = False
reload_extra_files = []
reload_engine = "auto"
