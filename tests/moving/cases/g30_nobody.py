# the app in the file, nobody as the user, a switch for reloads from the environment | http | gunicorn -c case.py
import os

wsgi_app = "app:app"
bind = "0.0.0.0:@PORT@"
user = "nobody"
reload = bool(int(os.getenv("HOT_RELOAD", "0")))
workers = int(os.getenv("SHOP_WORKERS", "4"))
