# workers of uvicorn, for an app of ASGI | http | gunicorn -c case.py asgi:app
import multiprocessing

bind = "0.0.0.0:@PORT@"
workers = multiprocessing.cpu_count() * 2 + 1

user = "www-data"
group = "www-data"

worker_class = "uvicorn.workers.UvicornWorker"
