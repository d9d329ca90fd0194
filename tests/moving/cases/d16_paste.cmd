# an app of PasteDeploy
gunicorn --paste site.ini -b 127.0.0.1:@PORT@ --workers 2
