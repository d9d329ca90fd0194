# an empty user and group, as their variables are not there
import multiprocessing as mp
import os

bind = f"0.0.0.0:{os.getenv('SHOP_PORT', '@PORT@')}"
workers = int(os.getenv("WEB_CONCURRENCY", str(mp.cpu_count() * 2 + 1)))
preload_app = False
timeout = int(os.getenv("GUNICORN_TIMEOUT", "120"))
graceful_timeout = int(os.getenv("GUNICORN_GRACEFUL_TIMEOUT", "30"))
keepalive = int(os.getenv("GUNICORN_KEEPALIVE", "5"))
max_requests = int(os.getenv("GUNICORN_MAX_REQUESTS", "1000"))
max_requests_jitter = int(os.getenv("GUNICORN_MAX_REQUESTS_JITTER", "100"))
accesslog = "-"
errorlog = "-"
loglevel = os.getenv("LOG_LEVEL", "info")
access_log_format = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" %(D)sus'
worker_tmp_dir = "/dev/shm"
user = os.getenv("SHOP_USER", "")
group = os.getenv("SHOP_GROUP", "")
