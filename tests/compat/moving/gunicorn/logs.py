wsgi_app = "shop.wsgi:application"
workers = 1
accesslog = "access.log"
loglevel = "debug"
access_log_format = (
    '{"remote_ip":"%({X-Forwarded-For}i)s","request_id":"%({X-Request-Id}i)s","response_code":"%(s)s",'
    '"request_method":"%(m)s","request_path":"%(U)s","request_querystring":"%(q)s","request_timetaken":"%(D)s",'
    '"response_length":"%(B)s"}'
)
logconfig_dict = {
    "version": 1,
    "root": {"level": "INFO", "handlers": ["console"]},
    "handlers": {"console": {"class": "logging.StreamHandler"}},
}
statsd_host = "localhost:8125"
statsd_prefix = "shop"
