from multiprocessing import cpu_count

bind = "0.0.0.0:8000"
workers = min(cpu_count() + 1, 2)
worker_class = "uvicorn.workers.UvicornWorker"
wsgi_app = "wsgi:application"
timeout = 0
reload = True
loglevel = "info"
