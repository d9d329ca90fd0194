# another folder, and variables
import os
import sys

chdir = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static")
pythonpath = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, pythonpath)
raw_env = ["SITE=folder", f"PYTHON={sys.version_info[0]}"]
bind = "127.0.0.1:@PORT@"
pidfile = "../app.pid"
