# an empty folder, as its variable is not there
import multiprocessing
import os

chdir = os.environ.get("SHOP_DIR", "")
bind = ":@PORT@"
workers = multiprocessing.cpu_count() * 2 + 1
worker_class = "sync"
timeout = 600
