# logging by a file of logging.config
bind = "127.0.0.1:@PORT@"
workers = 2
logconfig = "logging.conf"
