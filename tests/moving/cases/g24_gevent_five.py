# five workers of greenlets
workers = 5
worker_class = "gevent"
bind = "0.0.0.0:@PORT@"
accesslog = "-"
