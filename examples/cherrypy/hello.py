import cherrypy


class Root:
    @cherrypy.expose
    def index(self):
        return "Hello from CherryPy!\n"


# What is CherryPy's server is not started: aserve has the port, the threads and the signals.
cherrypy.config.update({"global": {"engine.autoreload.on": False, "log.screen": False, "environment": "embedded"}})
app = cherrypy.Application(Root(), "/")
