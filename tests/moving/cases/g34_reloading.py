# a unix socket for the group, with reloads for development | unix:shop.sock
import multiprocessing

workers = multiprocessing.cpu_count() * 2 + 1
bind = "unix:shop.sock"
umask = 0o007
reload = True
timeout = 900

# logging
accesslog = "-"
errorlog = "-"
