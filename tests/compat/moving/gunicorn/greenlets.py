import os

bind = ["0.0.0.0:" + os.environ.get("SHOP_PORT", "5000")]
workers = int(os.environ.get("SHOP_WORKERS", "1"))
worker_class = "gevent"
worker_connections = 100
timeout = 60
graceful_timeout = 20
keepalive = 5
