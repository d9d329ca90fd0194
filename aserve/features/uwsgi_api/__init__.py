"""What `import uwsgi` offers beyond RPC: locks, a cache, signals, timers and cron; compat/uwsgi.py is the module itself."""
