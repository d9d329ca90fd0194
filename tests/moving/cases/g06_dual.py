# IPv6 and IPv4 in one bind
bind = "[::]:@PORT@"
