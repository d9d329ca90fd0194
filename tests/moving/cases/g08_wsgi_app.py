# the app in the file, another folder
wsgi_app = "app:app"
chdir = "static"
pythonpath = ".."
bind = ["127.0.0.1:@PORT@"]
