# limits of requests, without an end of keep-alive
bind = "127.0.0.1:@PORT@"
limit_request_line = 0
limit_request_fields = 100
limit_request_field_size = 0
keepalive = 0
max_requests = 500
max_requests_jitter = 50
worker_connections = 2000
proc_name = "shop"
strip_header_spaces = False
tmp_upload_dir = None
