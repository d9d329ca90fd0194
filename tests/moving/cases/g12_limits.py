# limits of requests
bind = "127.0.0.1:@PORT@"
limit_request_line = 4094
limit_request_fields = 50
limit_request_field_size = 8190
backlog = 512
keepalive = 75
proc_name = "shop"
capture_output = True
enable_stdio_inheritance = True
secure_scheme_headers = {"X-FORWARDED-PROTOCOL": "ssl", "X-FORWARDED-PROTO": "https", "X-FORWARDED-SSL": "on"}
