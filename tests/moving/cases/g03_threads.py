# threads, a pid file and logs
import multiprocessing

bind = "0.0.0.0:@PORT@"
workers = min(2, multiprocessing.cpu_count())
threads = 2
worker_class = "gthread"
pidfile = "app.pid"
accesslog = "access.log"
errorlog = "-"
loglevel = "info"
