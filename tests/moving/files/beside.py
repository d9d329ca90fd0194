"""An import of a file of uWSGI's, beside the app."""

with open("beside.log", "a") as file:
    file.write("imported\n")
