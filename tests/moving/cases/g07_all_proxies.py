# each peer is a proxy
bind = "127.0.0.1:@PORT@"
forwarded_allow_ips = "*"
