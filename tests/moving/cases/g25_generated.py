# all that tutorials name, preloaded
import multiprocessing

# each address
bind = "0.0.0.0:@PORT@"
# twice the CPUs, and one
workers = multiprocessing.cpu_count() * 2 + 1
worker_class = "sync"


timeout = 30
graceful_timeout = 30
max_requests = 1000
max_requests_jitter = 50
accesslog = "-"  # standard output
errorlog = "-"  # standard error
loglevel = "info"
limit_request_line = 4094
limit_request_fields = 100
limit_request_field_size = 8190
proc_name = "shop_app"
preload_app = True
