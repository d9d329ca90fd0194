# a form of lines alone, with a field of the request | http | gunicorn -c case.py -b 127.0.0.1:@PORT@ --access-logfile access.log app
access_log_format = '%({X-Forwarded-For}i)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"'
