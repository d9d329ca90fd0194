"""What a server and its workers count, and how Prometheus and people read it (--metrics).

table.py has every metric once: where it stands in memory, what it is called, what it means. counting.py writes what a
process counts; totals.py adds what several have counted; text.py writes all of it down. For the status page, history.py keeps the
last minute, status.py says how things are, advice.py what to do, and picture.py puts that into an event. pages.py answers who asks for
any of it, scrapes.py has their connections. exporter.py puts these together, for the one process that lone.py and single.py know, and for the many of
a supervisor (processes/overview.py).
"""
