# preloaded, with limits
bind = "127.0.0.1:@PORT@"
workers = 2
preload_app = True
max_requests = 1000
max_requests_jitter = 50
graceful_timeout = 20
keepalive = 5
