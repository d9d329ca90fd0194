# standard output captured, one proxy
bind = "127.0.0.1:@PORT@"
workers = 2
worker_class = "sync"

timeout = 30
graceful_timeout = 30

forwarded_allow_ips = "127.0.0.1"

accesslog = "-"
errorlog = "-"
capture_output = True
proc_name = "shop-web"
