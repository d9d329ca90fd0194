"""What a server and its workers count, and how Prometheus reads it (--metrics).

table.py has every metric once: where it stands in memory, what it is called, what it means. counting.py writes what a
process counts; totals.py adds what several have counted; text.py writes all of it down; scrapes.py hands that to those who
ask. single.py puts these together for one process, processes/overview.py for a supervisor and its workers.
"""
