import bottle

app = bottle.Bottle()


@app.get("/")
def index():
    return "Hello from Bottle!\n"
