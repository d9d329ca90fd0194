# a tutorial: a socket that speaks HTTP, a module by letter
uwsgi --socket 0.0.0.0:@PORT@ --protocol=http -w app
