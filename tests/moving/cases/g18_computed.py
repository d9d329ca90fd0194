# settings that are computed
import multiprocessing
import os

_workers_per_core = float(os.getenv("WORKERS_PER_CORE", "0.5"))
_most = os.getenv("MAX_WORKERS")
cores = multiprocessing.cpu_count()
web_concurrency = max(int(_workers_per_core * cores), 2)
workers = min(web_concurrency, 2, int(_most or 99))
bind = os.getenv("BIND") or f"{os.getenv('HOST', '127.0.0.1')}:{os.getenv('NO_SUCH_PORT', '@PORT@')}"
loglevel = os.getenv("LOG_LEVEL", "info")
accesslog = os.getenv("ACCESS_LOG", "-") or None
errorlog = os.getenv("ERROR_LOG", "-") or None
graceful_timeout = int(os.getenv("GRACEFUL_TIMEOUT", "120"))
timeout = int(os.getenv("TIMEOUT", "120"))
keepalive = int(os.getenv("KEEP_ALIVE", "5"))
