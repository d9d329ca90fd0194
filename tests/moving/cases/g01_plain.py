# HTTP, two workers
bind = "127.0.0.1:@PORT@"
workers = 2
