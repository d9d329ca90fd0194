"""What a file of uWSGI imports beside the app."""

with open("beside.log", "a") as file:
    file.write("imported\n")
