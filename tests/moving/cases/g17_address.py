# a hook that shows where it listens
bind = "127.0.0.1:@PORT@"
workers = 2


def on_starting(server):
    """Write the address."""
    with open("address.log", "w") as file:
        file.write("%s:%s" % server.address[0])


def when_ready(server):
    """Write the workers."""
    with open("ready.log", "w") as file:
        file.write(f"{server.num_workers} {server.cfg.proc_name} {len(server.LISTENERS)}")


def nworkers_changed(server, new_value, old_value):
    """Log it."""
    server.log.info("%s workers, before %s", new_value, old_value)
