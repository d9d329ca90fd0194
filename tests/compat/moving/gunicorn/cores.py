# gunicorn.conf.py
import multiprocessing

max_requests = 1000
max_requests_jitter = 50

log_file = "-"

bind = "0.0.0.0:50505"

workers = min((multiprocessing.cpu_count() * 2) + 1, 3)
threads = workers
timeout = 120
worker_class = "gthread"
