# TLS | https
bind = "127.0.0.1:@PORT@"
certfile = "cert.pem"
keyfile = "key.pem"
ciphers = "HIGH"
do_handshake_on_connect = False
