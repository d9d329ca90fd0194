# statsd
bind = "127.0.0.1:@PORT@"
statsd_host = "127.0.0.1:8125"
statsd_prefix = "shop"
dogstatsd_tags = "env:test"
